// One attempt, from its claim to its settlement.
//   the attempt                                      settlement
//   its input does not fit the schema                dead: `invalid`
//   the handler returned                             done; dead if the value cannot be stored: `invalid`, `too_large`
//   the handler called abort                         failed: `aborted`
//   the handler asked for later, or threw a Retry    later
//     that names a time
//   the handler threw anything else                  retry; dead if this was the last that counts
//   its time was over                                the same, as `timeout`
//   the pod stops, or was counted as dead            back
// Once its signal was aborted nothing that the handler returns is taken: it may have returned because of that. A handler
// that goes on after its signal is left behind after a grace.
import { inspect } from 'node:util'
import { formatId, TASK_LIMITS } from '@fleetline/protocol'
import { Abort, Rejected, Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Log } from '../telemetry/log.ts'
import type { Claim } from './claim.ts'
import { Later, type Json, type TaskContext, type TaskDefinition } from './definition.ts'
import { storable } from './draft.ts'
import type { Settlement } from './settle.ts'

export type Surroundings = {
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
  /** Its lines name the task already. */
  readonly log: Log
  /** To end the attempt: by the pod from outside, by its timeout from here. */
  readonly ending: AbortController
}

const RETRY = { baseMs: 1_000, capMs: 900_000 }
const GRACE_MS = 2_000
const LATEST_MS = 365 * 86_400_000
const LOG_BYTES = 4_096
const MESSAGE = 1_000 // characters that an error keeps
const STACK = 4_000
const TIMEOUT = new Error('The attempt took too long')

export async function runAttempt(
  definition: TaskDefinition,
  claim: Claim,
  around: Surroundings,
): Promise<Settlement> {
  const { signal } = around.ending
  const fault = (code: string, error: unknown) => faultOf({ code, error, attempt: claim.attempt, ...around })
  const again = (code: string, error: unknown): Settlement =>
    claim.spent >= claim.maxAttempts
      ? { type: 'dead', error: fault(code, error) }
      : { type: 'retry', delayMs: retryMs(claim.spent, around.random), error: fault(code, error) }
  let input: unknown
  try {
    input = await definition.parse(claim.input)
  } catch (error) {
    return error instanceof Rejected
      ? { type: 'dead', error: fault('invalid', error) }
      : again('failed', error)
  }
  const end = await endOf(definition, contextOf(claim, input, around), around)
  if (signal.aborted) return signal.reason === TIMEOUT ? again('timeout', TIMEOUT) : { type: 'back' }
  if (end && 'value' in end) return resultOf(end.value, fault)
  const error = end?.error
  if (error instanceof Abort) return { type: 'failed', error: fault('aborted', error) }
  const delayMs = laterMs(error, around.clock)
  if (delayMs !== undefined) return { type: 'later', delayMs, error: fault('later', error) }
  return again(codeOf(error), error)
}

/** min(15 min, 1 s × 2^(n − 1)), from half of it on: those that failed together do not come back together. */
export function retryMs(spent: number, random: Random): number {
  const wholeMs = Math.min(RETRY.capMs, RETRY.baseMs * 2 ** Math.min(spent - 1, 30))
  return wholeMs * (0.5 + random.unit() / 2)
}

type End = { readonly value: unknown } | { readonly error: unknown }

/** Undefined if the handler was left behind. */
async function endOf(
  definition: TaskDefinition,
  context: TaskContext<unknown>,
  { clock, ending, log }: Surroundings,
): Promise<End | undefined> {
  const over = new AbortController()
  const aborted = Promise.withResolvers<void>()
  if (ending.signal.aborted) return undefined
  ending.signal.addEventListener('abort', () => aborted.resolve(), { once: true })
  clock.sleep(definition.timeoutMs, over.signal).then(
    () => ending.abort(TIMEOUT),
    () => undefined, // it has ended
  )
  const ended = definition.run(context).then(
    (value): End => ({ value }),
    (error: unknown): End => ({ error }),
  )
  const leftBehind = aborted.promise
    .then(() => clock.sleep(GRACE_MS, over.signal))
    .then(() => log.warn('a handler goes on after its signal'))
    .catch(() => undefined) // it has ended
  const end = await Promise.race([ended, leftBehind])
  over.abort(new Error('the attempt has ended'))
  return end ?? undefined
}

function contextOf(claim: Claim, input: unknown, { cell, ending, log }: Surroundings): TaskContext<unknown> {
  const name = formatId('task', cell, claim.id)
  return {
    id: name,
    key: name,
    input,
    attempt: claim.spent,
    maxAttempts: claim.maxAttempts,
    signal: ending.signal,
    log: (phrase, data) => log.info(phrase, data === undefined ? {} : { data: loggable(data) }),
  }
}

function loggable(data: Json): unknown {
  try {
    return JSON.parse(storable('data', data, LOG_BYTES))
  } catch {
    return `not shown: over ${LOG_BYTES} bytes, or no JSON`
  }
}

function resultOf(value: unknown, fault: (code: string, error: unknown) => string): Settlement {
  try {
    return { type: 'done', result: storable('result', value ?? null, TASK_LIMITS.resultBytes) }
  } catch (error) {
    return { type: 'dead', error: fault(codeOf(error), error) }
  }
}

function laterMs(error: unknown, clock: Clock): number | undefined {
  const time = error instanceof Later ? error.time : error instanceof Retry ? error.afterMs : undefined
  const ms = time instanceof Date ? time.getTime() - clock.now() : time
  return ms === undefined || Number.isNaN(ms) ? undefined : Math.min(LATEST_MS, Math.max(0, ms))
}

/** That of the error, `ECONNREFUSED` say, if it has one that may stand in a list. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^[\w.-]{1,63}$/.test(code) ? code : 'failed'
}

type Fault = {
  readonly code: string
  readonly error: unknown
  readonly attempt: number
  readonly clock: Pick<Clock, 'now'>
}

/** As JSON that can be stored, whatever was thrown. */
export function faultOf({ code, error, attempt, clock }: Fault): string {
  const at = new Date(clock.now()).toISOString()
  const clean = (part: unknown, most: number) => {
    const text = typeof part === 'string' ? part : inspect(part, { depth: 1 })
    return text.slice(0, most).replaceAll('\0', '').toWellFormed()
  }
  const message = clean(error instanceof Error ? error.message : error, MESSAGE)
  const stack = error instanceof Error ? clean(error.stack, STACK) : undefined
  const whole = JSON.stringify({ code, message, attempt, at, stack })
  return Buffer.byteLength(whole) <= TASK_LIMITS.errorBytes
    ? whole
    : JSON.stringify({ code, message, attempt, at })
}
