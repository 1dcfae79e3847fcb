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
import { kindOf, type Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Log } from '../telemetry/log.ts'
import type { Claim } from './claim.ts'
import type { Json, TaskContext, TaskDefinition } from './definition.ts'
import { storable } from './draft.ts'
import type { Settled, Settlement } from './settle.ts'

/** What runs the claims of a track. */
export type Runner = {
  readonly machine: string
  /** How to settle the attempt; or, from a runner that has settled it by itself, what came of that. Never rejects. */
  readonly run: (claim: Claim, around: Surroundings & OfPod) => Promise<Settlement | Ended>
}
export type Ended = { readonly type: Settlement['type']; readonly answer: Settled | 'unanswered' }

export type Surroundings = {
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
  /** Its lines name the task already. */
  readonly log: Log
  /** To end the attempt: by the pod from outside, by its timeout from here. */
  readonly ending: AbortController
}
/** For who settles by itself. */
export type OfPod = {
  /** As which it was claimed. */
  readonly pod: number
  /** Whether the pod must not trust that it is alive: it starts nothing then. */
  readonly isFenced: () => boolean
  /** Aborted when the pod waits no longer for answers about attempts. */
  readonly gaveUp: AbortSignal
}

const RETRY = { baseMs: 1_000, capMs: 900_000 }
/** For a handler to end once its signal was aborted. */
export const GRACE_MS = 2_000
const LATEST_MS = 365 * 86_400_000
const LOG_BYTES = 4_096
const MESSAGE = 1_000 // characters that an error keeps
const STACK = 4_000
const TIMEOUT = new Error('The attempt took too long')
const LATE: Thrown = { code: 'timeout', message: TIMEOUT.message }

export function runnerOf(definition: TaskDefinition): Runner {
  return { machine: definition.name, run: (claim, around) => runAttempt(definition, claim, around) }
}

export async function runAttempt(
  definition: TaskDefinition,
  claim: Claim,
  around: Surroundings,
): Promise<Settlement> {
  const { signal } = around.ending
  const fault = (thrown: Thrown) => faultOf({ ...thrown, attempt: claim.attempt, ...around })
  const again = (thrown: Thrown): Settlement =>
    claim.spent >= claim.maxAttempts
      ? { type: 'dead', error: fault(thrown) }
      : { type: 'retry', delayMs: retryMs(claim.spent, around.random), error: fault(thrown) }
  const end = await endOf(definition, claim, around)
  if (signal.aborted) return signal.reason === TIMEOUT ? again(LATE) : { type: 'back' }
  if (!end) return { type: 'back' } // it was aborted before it began
  if ('value' in end) return resultOf(end.value, fault)
  const thrown = readThrown(end.error, around.clock)
  if (!end.isParsed && thrown.kind === 'Rejected') return { type: 'dead', error: fault(thrown) }
  if (thrown.kind === 'Abort') return { type: 'failed', error: fault({ ...thrown, code: 'aborted' }) }
  if (thrown.delayMs === undefined) return again(thrown)
  return { type: 'later', delayMs: thrown.delayMs, error: fault({ ...thrown, code: 'later' }) }
}

/** min(15 min, 1 s × 2^(n − 1)), from half of it on: those that failed together do not come back together. */
export function retryMs(spent: number, random: Random): number {
  const wholeMs = Math.min(RETRY.capMs, RETRY.baseMs * 2 ** Math.min(spent - 1, 30))
  return wholeMs * (0.5 + random.unit() / 2)
}

type End = { readonly value: unknown } | { readonly error: unknown; readonly isParsed: boolean }

/** Undefined if the handler was left behind, or not begun. */
async function endOf(
  definition: TaskDefinition,
  claim: Claim,
  around: Surroundings,
): Promise<End | undefined> {
  const { clock, ending, log } = around
  if (ending.signal.aborted) return undefined
  const over = new AbortController()
  const aborted = Promise.withResolvers<void>()
  ending.signal.addEventListener('abort', () => aborted.resolve(), { once: true })
  clock.sleep(definition.timeoutMs, over.signal).then(
    () => ending.abort(TIMEOUT),
    () => undefined, // it has ended
  )
  const leftBehind = aborted.promise
    .then(() => clock.sleep(GRACE_MS, over.signal))
    .then(() => log.warn('a handler goes on after its signal'))
    .catch(() => undefined) // it has ended
  const end = await Promise.race([work(definition, claim, around), leftBehind])
  over.abort(new Error('the attempt has ended'))
  return end ?? undefined
}

async function work(definition: TaskDefinition, claim: Claim, around: Surroundings): Promise<End> {
  let isParsed = false
  try {
    const input = definition.parse ? await definition.parse(claim.input) : claim.input
    isParsed = true
    around.ending.signal.throwIfAborted()
    return { value: await definition.run(contextOf(claim, input, around)) }
  } catch (error) {
    return { error, isParsed }
  }
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

function resultOf(value: unknown, fault: (thrown: Thrown) => string): Settlement {
  try {
    return { type: 'done', result: storable('result', value ?? null, TASK_LIMITS.resultBytes) }
  } catch (error) {
    return { type: 'dead', error: fault(readThrown(error)) }
  }
}

export type Thrown = {
  readonly code: string
  readonly message: string
  readonly stack?: string | undefined
  readonly kind?: ReturnType<typeof kindOf>
  /** When it asked to be called again. */
  readonly delayMs?: number | undefined
}

/** Whatever was thrown: also what cannot be looked at without throwing again. */
export function readThrown(error: unknown, clock?: Pick<Clock, 'now'>): Thrown {
  try {
    const kind = kindOf(error)
    return {
      code: codeOf(error),
      message: clean(error instanceof Error ? error.message : error, MESSAGE),
      stack: error instanceof Error ? clean(error.stack, STACK) : undefined,
      kind,
      delayMs: kind === 'Retry' && clock ? laterMs(error as Retry, clock) : undefined,
    }
  } catch {
    return { code: 'failed', message: 'What the handler threw cannot be read' }
  }
}

function laterMs({ afterMs, at }: Retry, clock: Pick<Clock, 'now'>): number | undefined {
  const ms: unknown = at instanceof Date ? at.getTime() - clock.now() : afterMs
  return typeof ms !== 'number' || Number.isNaN(ms) ? undefined : Math.min(LATEST_MS, Math.max(0, ms))
}

/** That of the error, `ECONNREFUSED` say, if it has one that may stand in a list. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^[\w.-]{1,63}$/.test(code) ? code : 'failed'
}

function clean(part: unknown, most: number): string {
  const text = typeof part === 'string' ? part : inspect(part, { depth: 1 })
  return text.slice(0, most).replaceAll('\0', '').toWellFormed()
}

type Fault = Pick<Thrown, 'code' | 'message' | 'stack'> & {
  readonly attempt: number
  readonly clock: Pick<Clock, 'now'>
}

/** As JSON that can be stored, within its limit. */
export function faultOf({ code, message, stack, attempt, clock }: Fault): string {
  const known = { code, message, attempt, at: new Date(clock.now()).toISOString() }
  const whole = JSON.stringify({ ...known, stack })
  return Buffer.byteLength(whole) <= TASK_LIMITS.errorBytes ? whole : JSON.stringify(known)
}
