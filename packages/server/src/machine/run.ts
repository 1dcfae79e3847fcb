// Takes a task through its machine, from its claim to its settlement. Guarantees:
//   Q13  a recorded transition does not run again; the next one begins after the record is committed
//   Q14  every end of a body is one of this table, and nothing else
//
//   the body                                         the task
//   its input does not fit the schema                dead: `invalid`
//   a transition returned                            recorded, and continues; dead if its output cannot be stored:
//                                                    `invalid`, `too_large`
//   the last transition returned                     done, with what `end` makes of all outputs; dead if that does not fit
//   returned a hand-off                              done, with that result; the rest is skipped
//   a check returned nothing                         continues, and nothing is written
//   called abort                                     failed; dead if it asked for an operator
//   called hold                                      held
//   asked to be called later, or threw a Retry       later
//     that names a time
//   threw anything else                              retry; dead if this was the last attempt that counts
//   exceeded its time limit                          the same, as `timeout`
//   its downstream had no permit, or rejected it     later, as `rate_limited`
//   the pod stops, or was counted as dead            back, at its current position
// A draining pod begins no further body: the task continues on another pod.
import { formatId, TASK_LIMITS } from '@fleetline/protocol'
import { createSlots, type Slots } from '../lib/waiters.ts'
import type { Claim } from '../task/claim.ts'
import { toStorableJson } from '../task/draft.ts'
import { faultOf, readThrown, retryMs, type Thrown } from '../task/fault.ts'
import type { Call, SettledEnd, Runner, Surroundings } from '../task/runner.ts'
import type { DoneTransition, Settlement } from '../task/settle.ts'
import { attempt, outcomeOf, type AttemptOutcome } from './attempt.ts'
import { contextOf, readHandoff, type Context } from './context.ts'
import { LIMITS } from './limits.ts'
import { perform, UNHEARD } from './permit.ts'
import { toCanonical } from './canonical-json.ts'
import { stepsFrom, transitionsOf, type CheckStep, type Plan, type Step, type Transition } from './plan.ts'

type Run = {
  readonly plan: Plan
  readonly slots: ReadonlyMap<string, Slots>
  readonly claim: Claim
  readonly around: Surroundings
}
/** The position of the task. Only this attempt changes it. */
type Position = {
  position: number
  spent: number
  resumed: boolean
  out: Readonly<Record<string, unknown>>
  /** The size of all outputs, as JSON. */
  bytes: number
}
type Work = Run & { readonly at: Position; readonly input: unknown }
type End = Settlement | SettledEnd

const LATE: Thrown = { code: 'timeout', message: 'The attempt took too long' }
const USED_UP: Thrown = { code: 'attempts_used_up', message: 'The attempts of this transition are used up' }
const BACK: Settlement = { type: 'back' }

export function openRunner(plan: Plan): Runner {
  const limited = transitionsOf(plan.steps).filter(({ concurrency }) => concurrency !== undefined)
  const slots = new Map(limited.map(({ name, concurrency }) => [name, createSlots(concurrency!)]))
  const run: Runner['run'] = (claim, around) => pass({ plan, slots, claim, around })
  return { machine: plan.name, downstream: plan.downstream, run }
}

async function pass(run: Run): Promise<End> {
  const { plan, claim, around } = run
  const at = placeOf(claim)
  const work: Work = { ...run, at, input: claim.input }
  const next = transitionsOf(plan.steps)[at.position]
  if (at.spent > limitOf(work)) return dead(work, USED_UP, next?.name ?? 'end')
  if (!plan.parse) return walk(work)
  const timeoutMs = next?.timeoutMs ?? LIMITS.timeoutMs
  const parsed = await attempt(around, timeoutMs, () => plan.parse!(claim.input))
  if (parsed.type === 'returned') return walk({ ...work, input: parsed.value })
  return isRejected(parsed) ? dead(work, readThrown(parsed.error)) : afterFault(work, parsed)
}

async function walk(work: Work): Promise<End> {
  const { plan, at } = work
  for (const step of stepsFrom(plan.steps, at.position)) {
    const end = step.kind === 'check' ? await check(work, step) : await transit(work, step)
    if (end) return end
  }
  return finish(work, () => plan.end(endContext(work)))
}

function placeOf({ position, spent, attempt: count, carry }: Claim): Position {
  const values = Object.entries(carry ?? {}).map(([name, { value }]) => [name, toCanonical(value)] as const)
  const bytes = values.reduce((sum, [, value]) => sum + Buffer.byteLength(JSON.stringify(value)), 0)
  return { position, spent, resumed: count > 1, out: Object.freeze(Object.fromEntries(values)), bytes }
}

async function check(work: Work, step: CheckStep): Promise<End | undefined> {
  if (mustStop(work)) return BACK
  const outcome = await attempt(work.around, LIMITS.timeoutMs, (signal) =>
    call(work, step, { ...UNHEARD, signal }),
  )
  if (outcome.type !== 'returned') return afterFault(work, outcome, step.name)
  if (outcome.value === undefined) return undefined
  return handOff(work, step, outcome.value) ?? dead(work, onlyHandsOff(step), step.name)
}

async function transit(work: Work, step: Transition): Promise<End | undefined> {
  const { at, around, plan } = work
  const { metrics } = around
  const leave = await takeSlot(work, step)
  if (!leave || mustStop(work)) {
    leave?.()
    return BACK
  }
  const before = at.position
  const { outcome, ms } = await perform(around, step, (sent) => call(work, step, sent))
  leave()
  const end = await afterBody(work, step, outcome, ms)
  const labels = { machine: plan.name, transition: step.name }
  metrics.observe('transitionTime', labels, ms)
  metrics.count('transitions', { ...labels, outcome: at.position > before ? 'recorded' : wordFor(end) })
  return end
}

/** Undefined if the pod stops or drains during the wait. */
async function takeSlot({ slots, around }: Work, { name }: Transition): Promise<(() => void) | undefined> {
  const own = slots.get(name)
  if (!own) return () => undefined
  const stopped = AbortSignal.any([around.ending.signal, around.draining])
  return own.take(stopped).catch(() => undefined)
}

async function afterBody(
  work: Work,
  step: Transition,
  outcome: AttemptOutcome,
  ms: number,
): Promise<End | undefined> {
  if (outcome.type !== 'returned') return afterFault(work, outcome, step.name)
  const { value } = outcome
  if (work.plan.isPlain) return finish(work, () => value)
  return handOff(work, step, value) ?? advance(work, step, value, Math.round(ms))
}

function wordFor(end: End | undefined): string {
  if (!end) return 'recorded'
  if ('answer' in end) return end.answer === 'settled' ? end.type : end.answer
  return end.type === 'done' && end.via ? end.via : end.type
}

function call(work: Work, { name, body }: Step, sent: Call): unknown {
  const { plan, claim, around, at, input } = work
  const transition = plan.isPlain ? undefined : name
  const { spent, resumed, out } = at
  const { signal } = sent
  const given = {
    input,
    out,
    attempt: spent,
    maxAttempts: limitOf(work),
    resumed,
    signal,
    call: sent,
    transition,
  }
  return body(contextOf(claim, around, given))
}

/** Undefined if the body did not hand off. */
function handOff(work: Work, { name }: Step, value: unknown): Promise<End> | undefined {
  const handed = readHandoff(value)
  return handed && finish(work, () => handed.result, { via: 'handoff' }, name)
}

async function advance(work: Work, step: Transition, value: unknown, ms: number): Promise<End | undefined> {
  const { plan, at } = work
  let text: string
  try {
    text = toStorableJson(step.name, value ?? null, Math.min(step.maxBytes, LIMITS.carryBytes - at.bytes))
  } catch (error) {
    return dead(work, readThrown(error), step.name)
  }
  at.out = Object.freeze({ ...at.out, [step.name]: toCanonical(JSON.parse(text)) })
  const entry = { name: step.name, position: at.position + 1, value: text, ms }
  if (step === plan.steps.at(-1)) return finish(work, () => plan.end(endContext(work)), { last: entry })
  return record(work, entry)
}

/** Undefined if the transition is recorded: the task continues from there. */
async function record({ at, around }: Work, entry: DoneTransition): Promise<End | undefined> {
  const end = await around.record(entry)
  if (end) return end
  const bytes = at.bytes + Buffer.byteLength(entry.value)
  Object.assign(at, { position: entry.position, spent: 1, resumed: false, bytes })
  return undefined
}

async function finish(
  work: Work,
  resultOf: () => unknown,
  more: { readonly via?: 'handoff'; readonly last?: DoneTransition } = {},
  name = 'end',
): Promise<End> {
  const { plan, around } = work
  const { parseResult } = plan
  const textOf = (result: unknown) => toStorableJson('result', result ?? null, TASK_LIMITS.resultBytes)
  const outcome = parseResult
    ? await attempt(around, LIMITS.timeoutMs, async () => textOf(await parseResult(resultOf())))
    : await outcomeOf(() => textOf(resultOf()))
  if (outcome.type === 'returned') return { type: 'done', result: outcome.value as string, ...more }
  const end = more.last && (await record(work, more.last)) // the last transition stays recorded, although the end failed
  if (end) return end
  return isRejected(outcome) ? dead(work, readThrown(outcome.error), name) : afterFault(work, outcome, name)
}

function endContext({ claim, around, input, at }: Work): Pick<Context, 'id' | 'input' | 'out'> {
  return { id: formatId('task', around.cell, claim.id), input, out: at.out }
}

/** Handing a task over does not count as an attempt: another pod begins what a draining pod has not begun. */
function mustStop({ around }: Work): boolean {
  return around.draining.aborted || around.isFenced()
}

/** How many attempts the next transition has. The caller that enqueued the task may have asked for fewer, or, for a task with
 *  one handler, for more. */
function limitOf({ plan, claim, at }: Work): number {
  const next = transitionsOf(plan.steps)[at.position]
  return plan.isPlain ? claim.maxAttempts : Math.min(claim.maxAttempts, next?.attempts ?? plan.maxAttempts)
}

function afterFault(
  work: Work,
  outcome: Exclude<AttemptOutcome, { type: 'returned' }>,
  name?: string,
): Settlement {
  const { around } = work
  if (outcome.type === 'aborted') return BACK
  if (outcome.type === 'timeout') return again(work, LATE, name)
  const thrown = readThrown(outcome.error, around.clock)
  if (thrown.kind === 'Abort') return aborted(work, thrown, name)
  if (thrown.delayMs === undefined) return again(work, thrown, name)
  const code = thrown.code === 'rate_limited' ? thrown.code : 'later'
  return { type: 'later', delayMs: thrown.delayMs, error: fault(work, { ...thrown, code }, name) }
}

function aborted(work: Work, thrown: Thrown, name?: string): Settlement {
  if (thrown.outcome === 'held')
    return { type: 'held', reason: 'hold', error: fault(work, { ...thrown, code: 'hold' }, name) }
  return { type: thrown.outcome ?? 'failed', error: fault(work, { ...thrown, code: 'aborted' }, name) }
}

function again(work: Work, thrown: Thrown, name?: string): Settlement {
  const { at, around } = work
  if (at.spent >= limitOf(work)) return dead(work, thrown, name)
  return { type: 'retry', delayMs: retryMs(at.spent, around.random), error: fault(work, thrown, name) }
}

function dead(work: Work, thrown: Thrown, name?: string): Settlement {
  return { type: 'dead', error: fault(work, thrown, name) }
}

function fault({ plan, claim, around }: Work, thrown: Thrown, name?: string): string {
  const transition = plan.isPlain ? undefined : name
  return faultOf({ ...thrown, attempt: claim.attempt, transition, clock: around.clock })
}

function isRejected(outcome: AttemptOutcome): outcome is Extract<AttemptOutcome, { type: 'thrown' }> {
  return outcome.type === 'thrown' && readThrown(outcome.error).kind === 'Rejected'
}

function onlyHandsOff({ name }: CheckStep): Thrown {
  return {
    code: 'invalid',
    message: `The check ${name} returned a value: it may return c.handoff(…), or nothing`,
  }
}
