// JSON Patch (RFC 6902). A patch applies as a whole or not at all, and never changes the document that it is given. What it costs is
// limited for any patch: by the number of its operations, by what they copy and move, and by how deep the document may be nested.
import { isDeepStrictEqual } from 'node:util'
import { JSON_LIMITS } from '@fleetline/protocol'

/** The patch does not apply. */
export class PatchError extends Error {
  override readonly name = 'PatchError'
}

export const PATCH_LIMITS = {
  operations: 1_000,
  /** Of a document, as JSON; and of all that a patch copies and moves. */
  characters: 262_144,
} as const

export type PatchOperation = { readonly [field: string]: unknown }
type Container = Record<string, unknown> | unknown[]

/** The changed document, and how many characters of JSON the patch has added at most. */
export type Patched = { readonly document: unknown; readonly added: number }

export function applyPatch(document: unknown, patch: readonly PatchOperation[]): Patched {
  if (patch.length > PATCH_LIMITS.operations)
    throw new PatchError(`A patch has at most ${PATCH_LIMITS.operations} operations`)
  const [draft, budget] = [createDraft(document), createBudget()]
  for (const operation of patch) run(draft, budget, operation)
  return { document: draft.valueAt([]), added: budget.spent() }
}

function run(draft: Draft, budget: PatchBudget, { op, path: to, from, value }: PatchOperation): void {
  const path = parsePointer(to)
  switch (op) {
    case 'add':
      return draft.add(path, budget.take(path, value))
    case 'replace':
      return draft.replace(path, budget.take(path, value))
    case 'remove':
      return void draft.remove(path)
    case 'move': {
      const source = parsePointer(from)
      if (source.length < path.length && source.every((token, index) => token === path[index]))
        throw new PatchError('A value cannot be moved into itself')
      return draft.add(path, budget.take(path, draft.remove(source)))
    }
    case 'copy':
      return draft.add(path, structuredClone(budget.take(path, draft.valueAt(parsePointer(from)))))
    case 'test':
      if (isDeepStrictEqual(draft.valueAt(path), present(value))) return undefined
      throw new PatchError(`${String(to)} has another value`)
    default: // an operation of a later release: ignored, as the specification demands
      return undefined
  }
}

type PatchBudget = ReturnType<typeof createBudget>

const SEPARATORS = 2 // a colon and a comma

/** What a patch may put into a document: values, and the names of fields. */
function createBudget() {
  let spent = 0
  return {
    spent: () => spent,
    /** Returns the value, if there is room for it at this depth. */
    take: (path: readonly string[], value: unknown): unknown => {
      if (path.length + depthOf(present(value)) > JSON_LIMITS.depth)
        throw new PatchError(`A document is nested at most ${JSON_LIMITS.depth} deep`)
      spent += JSON.stringify(path.at(-1) ?? '').length + JSON.stringify(value).length + SEPARATORS
      if (spent > PATCH_LIMITS.characters)
        throw new PatchError(`A patch adds at most ${PATCH_LIMITS.characters} characters of JSON`)
      return value
    },
  }
}

/** Stops where it is too deep. */
function depthOf(value: unknown, above = 0): number {
  if (!isContainer(value) || above > JSON_LIMITS.depth) return 0
  let deepest = 0
  for (const inner of Object.values(value)) deepest = Math.max(deepest, depthOf(inner, above + 1))
  return 1 + deepest
}

type Draft = ReturnType<typeof createDraft>

/** A document that may be changed. Each container is copied before its first change. */
function createDraft(document: unknown) {
  const [root, own] = [[document], new WeakSet<object>()]
  const open = (path: readonly string[]): Container => {
    let container: Container = root
    for (const key of ['0', ...path]) {
      const inner = read(container, key)
      if (!isContainer(inner)) throw nothingAt(path)
      const copy = own.has(inner) ? inner : Array.isArray(inner) ? [...inner] : { ...inner }
      own.add(copy)
      if (Array.isArray(container)) container[Number(key)] = copy
      else container[key] = copy
      container = copy
    }
    return container
  }
  return {
    valueAt: (path: readonly string[]): unknown => {
      const value = path.reduce<unknown>((inner, key) => read(inner, key), root[0])
      if (value === undefined) throw nothingAt(path)
      return value
    },
    add: (path: readonly string[], value: unknown): void => {
      const key = path.at(-1)
      if (key === undefined) return void (root[0] = value)
      const parent = open(path.slice(0, -1))
      if (!Array.isArray(parent)) return void (parent[key] = value)
      const at = key === '-' ? parent.length : indexOf(key)
      if (at === undefined || at > parent.length) throw nothingAt(path)
      parent.splice(at, 0, value)
    },
    replace: (path: readonly string[], value: unknown): void => {
      const key = path.at(-1)
      if (key === undefined) return void (root[0] = value)
      const parent = open(path.slice(0, -1))
      if (read(parent, key) === undefined) throw nothingAt(path)
      if (Array.isArray(parent)) parent[Number(key)] = value
      else parent[key] = value
    },
    /** Returns what was there. */
    remove: (path: readonly string[]): unknown => {
      const key = path.at(-1)
      if (key === undefined) return root.splice(0, 1, null)[0]
      const parent = open(path.slice(0, -1))
      const value = read(parent, key)
      if (value === undefined) throw nothingAt(path)
      if (Array.isArray(parent)) parent.splice(indexOf(key)!, 1)
      else delete parent[key]
      return value
    },
  }
}

function read(container: unknown, key: string): unknown {
  if (Array.isArray(container)) {
    const at = indexOf(key)
    return at === undefined ? undefined : (container[at] as unknown)
  }
  return isContainer(container) && Object.hasOwn(container, key)
    ? (container as Record<string, unknown>)[key]
    : undefined
}

function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null
}

function indexOf(key: string): number | undefined {
  return /^(?:0|[1-9]\d{0,8})$/.test(key) ? Number(key) : undefined
}

/** The names on the way to a value. A name that could reach a prototype is rejected. */
function parsePointer(pointer: unknown): string[] {
  if (typeof pointer !== 'string' || !/^(?:\/(?:[^/~]|~[01])*)*$/.test(pointer))
    throw new PatchError('A path is a JSON Pointer')
  const tokens = pointer.split('/').slice(1)
  return tokens.map((token) => {
    const key = token.replaceAll('~1', '/').replaceAll('~0', '~')
    if (key === '__proto__') throw new PatchError('The field name __proto__ is not allowed')
    return key
  })
}

function present(value: unknown): unknown {
  if (value === undefined) throw new PatchError('An operation lacks its value')
  return value
}

function nothingAt(path: readonly string[]): PatchError {
  return new PatchError(`There is nothing at /${path.join('/')}`)
}
