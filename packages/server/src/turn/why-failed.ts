// What the log says of a call that failed.
import { AgentFault } from '../agent/fault.ts'
import type { Clock } from '../lib/clock.ts'
import type { Claim } from '../task/claim.ts'
import { faultFields, faultOf, readThrown } from '../task/fault.ts'
import type { LogFields } from '../telemetry/log.ts'

type Failed = { readonly claim: Pick<Claim, 'attempt'>; readonly clock: Clock }

/** For an exception of the agent's code: its stack. For an `AgentFault`: its reason, unless that quotes the agent. */
export function whyFailed({ claim, clock }: Failed, agent: string, error: unknown): LogFields {
  const { code, message, stack } = readThrown(error)
  const data = { agent }
  if (error instanceof AgentFault) {
    const reason = error.detail || (error.quotesAgent ? undefined : message)
    return { code, data, ...(reason !== undefined && { reason }) }
  }
  return { ...faultFields(faultOf({ code, message, stack, attempt: claim.attempt, clock })), data }
}
