// What a provider said, whichever client heard it: fetch and undici, AI SDK (`statusCode`, `responseHeaders`,
// `responseBody`), OpenAI and Anthropic (`status`, `headers`, `error`), AWS (`name`, `$metadata`, `$response`), Node's
// `code`s, an error inside a stream after a 200. Total: nothing of what was thrown is trusted, not even to be readable.

export type ProviderReply = {
  /** Undefined: there was none, or nobody kept it. */
  readonly status: number | undefined
  /** Names, codes and types of the error and of what caused it. */
  readonly names: ReadonlySet<string>
  /** Messages and bodies, as far as they are worth reading. */
  readonly text: string
  readonly header: (name: string) => string | undefined
}
type Level = { readonly [field: string]: unknown }

const DEEPEST = 5
const TEXT = 8_192 // characters
const INSIDE = ['error', 'data', 'response', '$metadata', '$response', 'cause', 'lastError'] as const
const NAMES = ['name', 'code', 'type', '__type', 'status'] as const
const STATUS = ['status', 'statusCode', 'httpStatusCode'] as const
const HEADERS = ['headers', 'responseHeaders'] as const
const TEXTS = ['message', 'responseBody', 'body', 'details'] as const

/** Of the parts that a caller has. A body may be text or what was parsed of it. */
export function replyOf(status: number, headers?: unknown, body?: unknown): ProviderReply {
  const inBody = levelsOf(typeof body === 'string' ? parsed(body) : body, DEEPEST)
  return assembled([{ status, headers }, ...inBody], [textOf(body)])
}

/** Of what a call threw. */
export function replyIn(error: unknown): ProviderReply {
  const levels = levelsOf(error, DEEPEST)
  const bodies = levels.flatMap((level) => levelsOf(parsed(level['responseBody']), 2))
  return assembled([...levels, ...bodies], [])
}

function assembled(levels: readonly Level[], texts: readonly string[]): ProviderReply {
  const heads = levels.flatMap((level) => HEADERS.map((field) => level[field])).filter(isObject)
  const all = [...texts, ...levels.flatMap((level) => TEXTS.map((field) => textOf(level[field])))]
  return {
    status: levels.flatMap((level) => STATUS.map((field) => level[field])).find(isStatus),
    names: new Set(levels.flatMap((level) => NAMES.map((field) => level[field])).filter(isName)),
    text: all.filter(Boolean).join('\n').slice(0, TEXT),
    header: (name) => {
      for (const head of heads) {
        const value = headerOf(head, name)
        if (value !== undefined) return value
      }
      return undefined
    },
  }
}

/** The thing itself first, then what stands inside it: causes, bodies, answers. Each is a copy of what could be read. */
function levelsOf(value: unknown, deepest: number): Level[] {
  if (!isObject(value) || deepest === 0) return []
  const level = readable(value)
  return [level, ...INSIDE.flatMap((field) => levelsOf(level[field], deepest - 1))]
}

function readable(value: object): Level {
  const fields = [...INSIDE, ...NAMES, ...STATUS, ...HEADERS, ...TEXTS]
  return Object.fromEntries(fields.map((field) => [field, fieldOf(value, field)]))
}

function fieldOf(value: object, field: string): unknown {
  try {
    return (value as Level)[field]
  } catch {
    return undefined // a getter that throws
  }
}

function headerOf(head: object, name: string): string | undefined {
  try {
    const get = fieldOf(head, 'get')
    const found: unknown =
      typeof get === 'function'
        ? get.call(head, name)
        : Object.entries(head).find(([key]) => key.toLowerCase() === name)?.[1]
    const one: unknown = Array.isArray(found) ? found[0] : found
    if (typeof one === 'number') return String(one)
    return typeof one === 'string' ? one.slice(0, 256) : undefined
  } catch {
    return undefined
  }
}

function parsed(text: unknown): unknown {
  if (typeof text !== 'string' || text.length > TEXT) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value.slice(0, TEXT)
  try {
    return isObject(value) ? (JSON.stringify(value) ?? '').slice(0, TEXT) : ''
  } catch {
    return ''
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isStatus(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 100 && value <= 599
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 128
}
