// What a failed call says about its provider. The first row that matches:
//   refused   it has too much to do, or we sent too much: 429; Groq's 498; a 402 about what is in flight; a 503 that names
//             a wait, a 5xx that speaks of high demand; `slow_down`, `ThrottlingException`, `rate_limit_error` … whatever
//             the status
//   timeout   no answer in time: 408, Node's and undici's timeouts, `ModelTimeoutException`, `TimeoutError`
//   server    it is ill: 5xx, `overloaded_error`, a connection refused or reset
//   client    all else: the request's own fault, or ours; says nothing about the provider
// An error of this library that asks to be tried later counts as a refusal; one of a limiter does not: that was another
// call, or none. Pure, and total.
import { kindOf, type Retry } from '../../errors.ts'
import { replyIn, type ProviderReply } from './reply.ts'
import { LONGEST_MS, waitOf } from './reply.ts'

export type FailureKind = 'refused' | 'timeout' | 'server' | 'client'
export type CallFailure = {
  readonly kind: FailureKind
  /** For how long it asked to be left alone. */
  readonly waitMs?: number | undefined
}

const REFUSED = [
  'slow_down',
  'limit_burst_rate',
  'rate_limit_error',
  'rate_limit_exceeded',
  'RESOURCE_EXHAUSTED',
  'ThrottlingException',
  'ServiceQuotaExceededException',
  'ModelNotReadyException',
]
const TIMEOUT = [
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ModelTimeoutException',
  'APIConnectionTimeoutError',
  'TimeoutError',
]
const SERVER = [
  'overloaded_error',
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'EAI_AGAIN',
  'UND_ERR_SOCKET',
  'APIConnectionError',
]
const DEMAND = /high demand|temporarily unable/i
const IN_FLIGHT = /in[- ]flight|concurren/i

/** Of what a call threw. */
export function failureIn(error: unknown, now: number): CallFailure {
  try {
    return ownRefusal(error, now) ?? failureOf(replyIn(error), now)
  } catch {
    return { kind: 'client' } // not even its fields can be read
  }
}

/** Of what a provider answered. */
export function failureOf(reply: ProviderReply, now: number): CallFailure {
  const waitMs = waitOf(reply, now)
  const kind = kindOfReply(reply, waitMs !== undefined)
  return kind === 'client' ? { kind } : { kind, waitMs }
}

function kindOfReply({ status = 0, names, text }: ProviderReply, hasWait: boolean): FailureKind {
  const isOneOf = (signs: readonly string[]) => signs.some((sign) => names.has(sign))
  const isIll = status >= 500
  if (status === 429 || status === 498 || isOneOf(REFUSED)) return 'refused'
  if (status === 402 && IN_FLIGHT.test(text)) return 'refused'
  if (isIll && DEMAND.test(text)) return 'refused'
  if (status === 503 && hasWait) return 'refused'
  if (status === 408 || isOneOf(TIMEOUT)) return 'timeout'
  return isIll || isOneOf(SERVER) ? 'server' : 'client'
}

function ownRefusal(error: unknown, now: number): CallFailure | undefined {
  if (kindOf(error) !== 'Retry' || (error as Retry).code !== 'rate_limited') return undefined
  const { afterMs, at, fields } = error as Partial<Retry>
  if (fields?.['key'] !== undefined) return { kind: 'client' }
  const waitMs = at instanceof Date ? at.getTime() - now : (afterMs ?? 0)
  return { kind: 'refused', waitMs: waitMs > 0 ? Math.min(waitMs, LONGEST_MS) : undefined }
}
