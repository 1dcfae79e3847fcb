// A body, under the permit of its downstream if it has one. The wait for a permit is no part of its time, and ends when the
// pod stops or drains; what the body came to is what the downstream learns. Whoever gets no permit soon goes back to the
// queue, where it is seen.
import { readThrown } from '../task/fault.ts'
import { GRACE_MS, type Call, type Surroundings } from '../task/runner.ts'
import { attempt, outcomeOf, type AttemptOutcome } from './attempt.ts'
import type { Transition } from './plan.ts'

type Done = { readonly outcome: AttemptOutcome; readonly ms: number }

const WAIT_MS = 2_000

/** `ms`: how long the body took. */
export async function perform(
  around: Surroundings,
  { timeoutMs, downstream }: Transition,
  body: (call: Call) => unknown,
): Promise<Done> {
  const { clock } = around
  let done: Done | undefined
  const timed = async (call: Omit<Call, 'signal'>): Promise<Done> => {
    const startMs = clock.monotonicMs()
    const outcome = await attempt(around, timeoutMs, (signal) => body({ ...call, signal }))
    return { outcome, ms: clock.monotonicMs() - startMs }
  }
  if (downstream === undefined) return timed(UNHEARD)
  const underPermit = async (call: Call) => {
    let hasSpoken = false
    const firstToken = () => {
      hasSpoken = true
      call.firstToken()
    }
    done = await timed({ firstToken, response: call.response })
    if (done.outcome.type !== 'returned') throw failureOf(done.outcome, hasSpoken)
  }
  const limits = {
    maxWaitMs: WAIT_MS,
    waitSignal: around.draining,
    signal: around.ending.signal,
    deadlineMs: timeoutMs + 2 * GRACE_MS, // it ends by itself, before
  }
  const tried = await outcomeOf(() => around.permits.run(downstream, underPermit, limits))
  if (tried.type === 'returned') return done!
  if (done && !mayBeRefused(done.outcome)) return done
  if (!done && (limits.signal.aborted || limits.waitSignal.aborted))
    return { outcome: { type: 'aborted' }, ms: 0 }
  return { outcome: tried, ms: done?.ms ?? 0 }
}

/** What a body has decided by itself holds, also if it was refused before. */
function mayBeRefused(outcome: AttemptOutcome): boolean {
  if (outcome.type !== 'thrown') return false
  const { kind, delayMs, code } = readThrown(outcome.error, { now: () => 0 })
  return kind !== 'Abort' && (delayMs === undefined || code === 'rate_limited')
}

/** Of a body that calls nothing that has a limit. */
export const UNHEARD: Omit<Call, 'signal'> = { firstToken: () => undefined, response: () => undefined }

/** As the downstream is told: whoever spoke, and took too long, is not ill. */
function failureOf(outcome: Exclude<AttemptOutcome, { type: 'returned' }>, hasSpoken: boolean): unknown {
  if (outcome.type === 'thrown') return outcome.error
  const error = new Error(`The body ended as ${outcome.type}`)
  return outcome.type === 'timeout' && !hasSpoken ? Object.assign(error, { name: 'TimeoutError' }) : error
}
