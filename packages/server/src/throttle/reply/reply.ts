// Reads a provider's answer from an error or response of any client: fetch and undici, AI SDK (`statusCode`,
// `responseHeaders`, `responseBody`), OpenAI and Anthropic (`status`, `headers`, `error`), AWS (`name`, `$metadata`,
// `$response`), Node's `code`s, and an error inside a stream after a 200. Never throws: a thrown value is not trusted, and
// even reading one of its fields may fail.
import { kindOf, statusOf } from '../../errors.ts'

export type ProviderReply = {
  /** Undefined if there was no status or the client did not keep it. */
  readonly status: number | undefined
  /** Names, codes and types of the error and its causes. */
  readonly names: ReadonlySet<string>
  /** Messages and bodies, cut to the length that we read. */
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

/** Builds a reply from its parts. The body may be text or parsed JSON. */
export function replyOf(status: number, headers?: unknown, body?: unknown): ProviderReply {
  const inBody = levelsOf(typeof body === 'string' ? parseJson(body) : body, DEEPEST)
  return assembleReply([{ status, headers }, ...inBody], [textOf(body)])
}

/** Builds a reply from an error that a call threw. */
export function replyIn(error: unknown): ProviderReply {
  const levels = levelsOf(error, DEEPEST)
  const bodies = levels.flatMap((level) => levelsOf(parseJson(level['responseBody']), 2))
  return assembleReply([...levels, ...bodies], [])
}

function assembleReply(levels: readonly Level[], texts: readonly string[]): ProviderReply {
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

/** Lists the value first, then everything nested in it: causes, bodies, responses. Each level is a copy of its readable fields. */
function levelsOf(value: unknown, deepest: number): Level[] {
  if (!isObject(value) || deepest === 0) return []
  const level = copyReadable(value)
  return [level, ...INSIDE.flatMap((field) => levelsOf(level[field], deepest - 1))]
}

function copyReadable(value: object): Level {
  const all = [...INSIDE, ...NAMES, ...STATUS, ...HEADERS, ...TEXTS]
  const level = Object.fromEntries(all.map((field) => [field, fieldOf(value, field)]))
  // Our own errors have a status by their code. We would send that status; it did not come from a provider.
  return isOurs(value) && level['status'] === statusOf(level['code'])
    ? { ...level, status: undefined }
    : level
}

function isOurs(value: object): boolean {
  try {
    return kindOf(value) !== undefined
  } catch {
    return false // not even that can be read
  }
}

function fieldOf(value: object, field: string): unknown {
  try {
    return (value as Level)[field]
  } catch {
    return undefined // the getter threw
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

function parseJson(text: unknown): unknown {
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

// How long a provider asked us to wait: the first readable sign that is greater than zero. The time at which a bucket is full
// again (`x-ratelimit-reset-tokens`, `anthropic-ratelimit-…-reset`) is not a wait, because a call may succeed long before. A
// point in time is read by the provider's clock: if the answer has a `date` header, that is the current time.

/** Azure has asked for a whole day. Longer waits are cut to this. */
export const LONGEST_MS = 86_400_000
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Undefined if the provider asked for no wait. */
export function waitOf(reply: ProviderReply, ours: number): number | undefined {
  const { status, header, text } = reply
  const theirs = Date.parse(header('date') ?? '')
  const now = Number.isNaN(theirs) ? ours : theirs
  const refusal = (name: string) => (status === 429 ? header(name) : undefined) // with any other status it describes a bucket
  const signs = [
    () => numberOf(header('retry-after-ms')),
    () => numberOf(header('x-ms-retry-after-ms')),
    () => secondsOf(header('retry-after')),
    () => untilDate(header('retry-after'), now),
    () => secondsOf(/(?:^|[;,\s])t=(\d{1,9})/.exec(refusal('ratelimit') ?? '')?.[1]),
    () => resetOf(refusal('ratelimit-reset'), now),
    () => resetOf(refusal('x-ratelimit-reset'), now),
    () => secondsOf(/"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d+)?)s"/.exec(text)?.[1]),
    () => spokenMs(text),
  ]
  for (const sign of signs) {
    const ms = sign()
    if (ms !== undefined && ms > 0) return Math.min(ms, LONGEST_MS)
  }
  return undefined
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d{1,15}(\.\d+)?\s*$/.test(text) ? Number(text) : undefined
}

function secondsOf(text: string | undefined): number | undefined {
  const seconds = numberOf(text)
  return seconds === undefined ? undefined : seconds * 1_000
}

function untilDate(text: string | undefined, now: number): number | undefined {
  if (text === undefined || !/^\s*[A-Z]/i.test(text)) return undefined // Date.parse reads other text as some date, too
  return finite(Date.parse(text) - now)
}

/** Reads milliseconds or seconds since 1970; a small number means seconds from now. */
function resetOf(text: string | undefined, now: number): number | undefined {
  const value = numberOf(text)
  if (value === undefined) return undefined
  if (value > 1e12) return value - now
  return value > 1e9 ? value * 1_000 - now : value * 1_000
}

/** Reads a wait from prose: `2 minutes`, `320ms`, `1m26.4s`. */
function spokenMs(text: string): number | undefined {
  const begin = /(?:retry after|try again in)\s+(?=\d)/i.exec(text)
  if (!begin) return undefined
  const part = /(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|h|milliseconds?|seconds?|minutes?|hours?)(?![a-z])\s*/iy
  part.lastIndex = begin.index + begin[0].length
  let ms: number | undefined
  for (let found = part.exec(text); found; found = part.exec(text)) {
    const [, count, unit] = found
    const short = /^(ms|milli)/i.test(unit!) ? 'ms' : unit![0]!.toLowerCase()
    ms = (ms ?? 0) + Number(count) * UNITS[short]!
  }
  return ms
}

function finite(ms: number): number | undefined {
  return Number.isFinite(ms) ? ms : undefined
}
