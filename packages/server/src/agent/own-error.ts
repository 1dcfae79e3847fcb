// Why an agent failed, in its own words: the text of its `error` chunk. Frameworks hide the cause from those who read the
// chunk, so an agent that wants to be called again in time, or not again, says so in a form of ours, which no reader is shown:
//   fleetline:{"code":"rate_limited","status":429,"retryAfterMs":2000,"retryable":true}
//   it says                          the turn
//   status 429                       waits as long as it asks for, which does not count
//   retryable false; or, unless it   failed
//   says so, a status of 400 to 499
//   that is no time-out
//   anything else                    called again, not before the time that it asks for
// All fields may be missing; its code is for the log of the pod. Any other text is what people are told.
import { jsonTextFault } from '@fleetline/protocol'
import type { Retry } from '../errors.ts'
import { AgentFault, busy } from './fault.ts'
import { waitMs } from './retry-after.ts'

type OwnError = {
  readonly code?: string
  readonly status?: number
  readonly retryAfterMs?: number
  readonly retryable?: boolean
}

const FORM = 'fleetline:'

export function ownErrorText(error: OwnError): string {
  return `${FORM}${JSON.stringify(error)}`
}

/** What to throw for the text of an `error` chunk. */
export function faultOfText(text: string): AgentFault | Retry {
  if (!text.startsWith(FORM))
    return new AgentFault('agent_error', `The agent said: ${text}`, { isFinal: false })
  const { code, status, afterMs, retryable } = read(text.slice(FORM.length))
  if (status === 429) return busy('The agent asks for later', afterMs)
  const isFinal = retryable === undefined ? isRefusal(status) : !retryable
  const detail = [code, status].filter((word) => word !== undefined).join(' ')
  return new AgentFault('agent_error', 'The agent could not answer', { isFinal, afterMs, detail, status })
}

function read(json: string) {
  let fields: { readonly [name in keyof OwnError]?: unknown } = {}
  try {
    const value: unknown = jsonTextFault(json) === undefined ? JSON.parse(json) : undefined
    if (typeof value === 'object' && value !== null) fields = value
  } catch {
    // an error without a reason, to try again after
  }
  const { code, status, retryAfterMs, retryable } = fields
  return {
    code: typeof code === 'string' ? code.slice(0, 64) : undefined,
    status: typeof status === 'number' ? status : undefined,
    afterMs: waitMs(retryAfterMs),
    retryable: typeof retryable === 'boolean' ? retryable : undefined,
  }
}

function isRefusal(status = 500): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 425
}
