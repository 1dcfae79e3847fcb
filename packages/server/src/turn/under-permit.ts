// Calls an agent under a permit of its downstream, and tells the downstream what the agent's answer says about its load. Guarantees:
//   S35  a call that has waited does not carry messages that were erased meanwhile
import { AgentFault, answerIn } from '../agent/fault.ts'
import { Retry } from '../errors.ts'
import type { Call, Surroundings } from '../task/runner.ts'

const PERMIT_MS = { wait: 2_000, tail: 30_000 }
const FRESH_MS = 10 // a call that gets its permit sooner has not waited, and costs no statement

/** Thrown before the agent is called. It says nothing about the downstream. */
export const STALE = new Error('Messages were erased before the agent was called')

type Around = Pick<Surroundings, 'permits' | 'draining' | 'ending' | 'clock'> & {
  /** The time that the call has left. */
  readonly leftMs: () => number
  /** Whether messages that the call carries may have been erased. */
  readonly isStale: () => Promise<boolean>
}

/** Throws `STALE` if messages were erased during the wait. */
export async function underPermit<Value>(
  { permits, draining, ending, clock, leftMs, isStale }: Around,
  downstream: string,
  body: (permitted: Call) => Promise<Value>,
): Promise<Value> {
  const limits = {
    isAwaited: true,
    maxWaitMs: PERMIT_MS.wait,
    waitSignal: draining,
    signal: ending.signal,
    deadlineMs: leftMs() + PERMIT_MS.tail, // the permit outlasts the call, which ends by itself when its time is over
  }
  const sinceMs = clock.monotonicMs()
  const told = async (permitted: Call) => {
    if (clock.monotonicMs() - sinceMs > FRESH_MS && (await isStale())) throw STALE
    try {
      return await body(permitted)
    } catch (error) {
      const { status, waitMs } = answerIn(error) ?? {}
      const headers = waitMs === undefined ? {} : { 'retry-after-ms': String(waitMs) }
      if (status !== undefined) permitted.response(status, headers)
      throw error
    }
  }
  try {
    return await permits.run(downstream, told, limits)
  } catch (error) {
    throw error instanceof Retry && error.cause instanceof AgentFault ? error.cause : error // counts as an attempt
  }
}
