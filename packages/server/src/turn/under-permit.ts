// Calls an agent under a permit of its downstream, and tells the downstream what the agent's answer says about its load.
import { AgentFault, answerIn } from '../agent/fault.ts'
import { Retry } from '../errors.ts'
import type { Call, Surroundings } from '../task/runner.ts'

const PERMIT_MS = { wait: 2_000, tail: 30_000 }

type Around = Pick<Surroundings, 'permits' | 'draining' | 'ending'> & {
  /** The time that the call has left. */
  readonly leftMs: () => number
}

export async function underPermit<Value>(
  { permits, draining, ending, leftMs }: Around,
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
  const told = async (permitted: Call) => {
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
