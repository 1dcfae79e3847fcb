// Classifies a failed call by what it says about the provider. The first matching row applies:
//   refused   The provider is overloaded, or we sent too much: 429; Groq's 498; a 402 about calls in flight; a 503 that names
//             a wait; a 5xx that mentions high demand; `slow_down`, `ThrottlingException`, `rate_limit_error` … with any
//             status
//   timeout   No answer in time: 408, Node's and undici's timeouts, `ModelTimeoutException`, `TimeoutError`
//   server    The provider has a fault: 5xx, `overloaded_error`, a connection refused or reset
//   client    Everything else: the request is wrong, or our side is. Says nothing about the provider.
// A `rate_limited` Retry of this library counts as refused. One thrown by a limiter does not: it is about another call, or
// nothing was sent. Pure; never throws.
import { kindOf, type Retry } from '../../errors.ts'
import { replyIn, type ProviderReply } from './reply.ts'
import { LONGEST_MS, waitOf } from './reply.ts'

export type FailureKind = 'refused' | 'timeout' | 'server' | 'client'
export type CallFailure = {
  readonly kind: FailureKind
  /** How long the provider asked us to wait. */
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

/** Classifies an error that a call threw. */
export function failureIn(error: unknown, now: number): CallFailure {
  try {
    return ownRefusal(error, now) ?? failureOf(replyIn(error), now)
  } catch {
    return { kind: 'client' } // even reading its fields throws
  }
}

/** Classifies an answer of a provider. */
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
