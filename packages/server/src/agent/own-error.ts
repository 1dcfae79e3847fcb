// Reads why an agent failed from the text of its `error` chunk. Frameworks hide the cause from readers of the chunk. So an agent
// that wants to be called again at a certain time, or not again, says so in this form, which readers are not shown:
//   fleetline:{"code":"rate_limited","status":429,"retryAfterMs":2000,"retryable":true}
//   the text says                    the turn
//   status 429                       waits as long as the agent asks; does not count
//   retryable false; or no           failed
//   retryable, and a status of 400
//   to 499 other than 408 and 425
//   anything else                    called again, not before the time that the agent asks for
// All fields are optional. `code` and `status` go to the pod's log; a `code` that is not 1 to 64 letters, digits, `_`, `.` or `-` is
// ignored. Any other text is shown to people.
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
const CODE = /^[\w.-]{1,64}$/ // it is logged, so it must not be a sentence

export function ownErrorText(error: OwnError): string {
  return `${FORM}${JSON.stringify(error)}`
}

/** What to throw for the text of an `error` chunk. */
export function faultOfText(text: string): AgentFault | Retry {
  if (!text.startsWith(FORM))
    return new AgentFault('agent_error', `The agent said: ${text}`, {
      isFinal: false,
      quotesAgent: true,
    })
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
    // an error without a reason: retried
  }
  const { code, status, retryAfterMs, retryable } = fields
  return {
    code: typeof code === 'string' && CODE.test(code) ? code : undefined,
    status: typeof status === 'number' ? status : undefined,
    afterMs: waitMs(retryAfterMs),
    retryable: typeof retryable === 'boolean' ? retryable : undefined,
  }
}

function isRefusal(status = 500): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 425
}
