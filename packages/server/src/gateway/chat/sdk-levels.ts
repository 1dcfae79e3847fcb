// What a release of the AI SDK understands. A client that gets a chunk of a type that it does not know fails, and older releases also fail at
// fields that they do not know. A client names its release in the header `x-fleetline-ai-sdk`. Pure.
import type { Chunk } from '@fleetline/protocol'

export type SdkLevel = {
  /** Whether the client knows `reset-step`. */
  readonly knowsReset: boolean
  /** Makes a function for one stream, which returns a chunk as this client may get it. */
  readonly fitting: () => (chunk: Chunk) => readonly Chunk[]
}
export type Release = readonly [major: number, minor: number, patch: number]
/** A release, or one for each major version that got it later. */
type Since = readonly Release[]

const SINCE = {
  types: {
    'tool-input-error': [[5, 0, 7]],
    'tool-output-denied': [[6, 0, 0]],
    'tool-approval-request': [[6, 0, 0]],
    'tool-approval-response': [[7, 0, 0]],
    'reasoning-file': [[7, 0, 0]],
    custom: [[7, 0, 0]],
    'reset-step': [[7, 0, 70]],
    'steering-message': [[7, 0, 163]],
  },
  fields: {
    'abort reason': [[6, 0, 15]],
    'finish finishReason': [[5, 0, 92]],
    'text-end citations': [[7, 0, 138]],
    'tool-input-start title': [[6, 0, 0]],
    'tool-input-available title': [[6, 0, 0]],
    'tool-input-error title': [[6, 0, 0]],
    'tool-input-start providerMetadata': [[6, 0, 39]],
    'tool-input-start toolMetadata': [[6, 0, 176]],
    'tool-input-available toolMetadata': [[6, 0, 176]],
    'tool-input-error toolMetadata': [[6, 0, 176]],
    'tool-output-available toolMetadata': [[6, 0, 176]],
    'tool-output-error toolMetadata': [[6, 0, 176]],
    'tool-output-available providerMetadata': [[6, 0, 120]],
    'tool-output-available preliminary': [[5, 0, 11]],
    'tool-output-error providerMetadata': [[6, 0, 120]],
    'tool-input-start inputEncoding': [
      [6, 0, 308],
      [7, 0, 142],
    ],
    'tool-approval-request signature': [[6, 0, 202]],
    'tool-approval-request approvalDescriptor': [
      [6, 0, 274],
      [7, 0, 87],
    ],
    'tool-approval-request inputSchemaInput': [
      [6, 0, 290],
      [7, 0, 113],
    ],
    'tool-approval-request isAutomatic': [[7, 0, 0]],
    'tool-approval-request reason': [[7, 0, 82]],
  },
} as const satisfies Record<string, Readonly<Record<string, Since>>>

/** From these releases on, a client ignores fields that it does not know. */
const LENIENT: Since = [
  [5, 0, 217],
  [6, 0, 231],
  [7, 0, 32],
]
/** Before, the AI SDK spoke another protocol. */
const FIRST_MAJOR = 5
const KNOWS_INTERRUPTED: Since = [[7, 0, 149]]
/** Before, the end of a step made a client forget the texts that were still open. */
const KEEPS_OPEN: Since = [[7, 0, 79]]

/** Why Fleetline does not talk to this release. */
export function releaseFault(text: string): string | undefined {
  const release = parseLevel(text)
  if (!release) return 'must be a release of the AI SDK, such as 7.0.169'
  return release[0] < FIRST_MAJOR
    ? `AI SDK ${release[0]} does not work with Fleetline. Use 5, 6 or 7`
    : undefined
}

/** Undefined: the text names no release. */
export function parseLevel(text: string): Release | undefined {
  const [, major, minor, patch] = /^(\d{1,4})\.(\d{1,4})\.(\d{1,5})(?:-.*)?$/.exec(text) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

/** `assumed`: for a client that names no release. It gets the agent's chunks as they are, because they usually have the same release. */
export function levelOf(named: Release | undefined, assumed: Release): SdkLevel {
  const version = named ?? assumed
  const knowsReset = isSince(version, SINCE.types['reset-step'])
  return {
    knowsReset,
    fitting: () => {
      const [fit, mark] = [named ? fittingTo(version) : (chunk: Chunk) => [chunk], markDynamic()]
      return (chunk) => fit(mark(chunk))
    },
  }
}

/** Sets `dynamic` on the result of a dynamic call. Release 5 cannot match the result to its call without it, and chunks made from a stored
 *  reply lack it. */
function markDynamic(): (chunk: Chunk) => Chunk {
  const calls = new Set<string>()
  return (chunk) => {
    if (chunk.type === 'tool-output-available' || chunk.type === 'tool-output-error')
      return calls.has(chunk.toolCallId) ? { ...chunk, dynamic: true } : chunk
    if (!('toolName' in chunk)) return chunk
    if (chunk.dynamic) calls.add(chunk.toolCallId)
    else calls.delete(chunk.toolCallId)
    return chunk
  }
}

function fittingTo(version: Release): (chunk: Chunk) => readonly Chunk[] {
  const inOrder = isSince(version, KEEPS_OPEN) ? (chunk: Chunk) => [chunk] : holdingSteps()
  return (chunk) => inOrder(chunk).flatMap((one) => fitTo(version, one) ?? [])
}

/** Holds the end of a step, and what follows it, until no text of the step is open. */
function holdingSteps(): (chunk: Chunk) => readonly Chunk[] {
  const open = new Set<string>()
  let held: Chunk[] = []
  return (chunk) => {
    if (chunk.type === 'reset-step') {
      open.clear()
      held = []
    }
    const [, kind, edge] = /^(text|reasoning)-(start|end)$/.exec(chunk.type) ?? []
    if ('id' in chunk && edge === 'start') open.add(`${kind} ${chunk.id}`)
    if ('id' in chunk && edge === 'end') open.delete(`${kind} ${chunk.id}`)
    const isHeld = chunk.type === 'finish-step' && open.size > 0
    if (isHeld) held.push(chunk)
    const isFree = open.size === 0 || ENDS.has(chunk.type)
    const out = isHeld ? [] : [chunk]
    if (held.length === 0 || !isFree) return out
    const released = held
    held = []
    return ENDS.has(chunk.type) ? [...released, ...out] : [...out, ...released]
  }
}
const ENDS = new Set(['finish', 'abort', 'error'])

function fitTo(version: Release, chunk: Chunk): Chunk | undefined {
  const types: Readonly<Record<string, Since>> = SINCE.types
  const since = Object.hasOwn(types, chunk.type) ? types[chunk.type] : undefined
  if (since && !isSince(version, since)) return undefined
  const known = isSince(version, LENIENT) ? chunk : withoutNewer(version, chunk)
  const isTooNew =
    known.type === 'finish' && known.finishReason === 'interrupted' && !isSince(version, KNOWS_INTERRUPTED)
  return isTooNew ? { ...known, finishReason: 'other' } : known
}

/** Only fields of the table: an agent may send others, which its own client then knows. */
function withoutNewer(version: Release, chunk: Chunk): Chunk {
  const fields: Readonly<Record<string, Since>> = SINCE.fields
  const isKnown = ([name]: [string, unknown]) => {
    const key = `${chunk.type} ${name}`
    return !Object.hasOwn(fields, key) || isSince(version, fields[key]!)
  }
  return Object.fromEntries(Object.entries(chunk).filter(isKnown)) as Chunk
}

function isSince(version: Release, since: Since): boolean {
  const same = since.find(([major]) => major === version[0])
  if (same) return compare(version, same) >= 0
  return since.some(([major]) => major < version[0])
}

function compare(a: Release, b: Release): number {
  const at = a.findIndex((value, index) => value !== b[index])
  return at < 0 ? 0 : a[at]! - b[at]!
}
