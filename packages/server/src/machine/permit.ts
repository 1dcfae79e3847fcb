// Runs a body, under a permit of its downstream if it has one. The wait for a permit does not count toward the time limit, and
// it ends when the pod stops or drains. The downstream learns from the body's outcome. If there is no permit within 2 s, the
// task goes back to the queue, where people can see it.
import { readThrown } from '../task/fault.ts'
import { GRACE_MS, type Call, type Surroundings } from '../task/runner.ts'
import { attempt, outcomeOf, type AttemptOutcome } from './attempt.ts'
import type { Transition } from './plan.ts'

type Done = { readonly outcome: AttemptOutcome; readonly ms: number }

const WAIT_MS = 2_000

/** `ms` is how long the body took. */
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
    deadlineMs: timeoutMs + 2 * GRACE_MS, // the body ends by itself before that
  }
  const tried = await outcomeOf(() => around.permits.run(downstream, underPermit, limits))
  if (tried.type === 'returned') return done!
  if (done && !mayBeRefused(done.outcome)) return done
  if (!done && (limits.signal.aborted || limits.waitSignal.aborted))
    return { outcome: { type: 'aborted' }, ms: 0 }
  return { outcome: tried, ms: done?.ms ?? 0 }
}

/** False if the body itself decided how to end. Its decision counts, even if the provider rejected a call before. */
function mayBeRefused(outcome: AttemptOutcome): boolean {
  if (outcome.type !== 'thrown') return false
  const { kind, delayMs, code } = readThrown(outcome.error, { now: () => 0 })
  return kind !== 'Abort' && (delayMs === undefined || code === 'rate_limited')
}

/** For a body without a downstream. */
export const UNHEARD: Omit<Call, 'signal'> = { firstToken: () => undefined, response: () => undefined }

/** The error for the downstream. After the first token a timeout is not reported as one: the downstream was able to answer. */
function failureOf(outcome: Exclude<AttemptOutcome, { type: 'returned' }>, hasSpoken: boolean): unknown {
  if (outcome.type === 'thrown') return outcome.error
  const error = new Error(`The body ended as ${outcome.type}`)
  return outcome.type === 'timeout' && !hasSpoken ? Object.assign(error, { name: 'TimeoutError' }) : error
}
