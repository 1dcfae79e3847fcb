// A failure of an agent or of the connection to it, never of Fleetline.
import { Retry } from '../errors.ts'

type What = {
  /** A retry would fail in the same way. */
  readonly isFinal: boolean
  /** How long the agent asked us to wait. */
  readonly afterMs?: number | undefined
  /** For operators. */
  readonly detail?: string | undefined
  /** For the author of the agent: what to do. The message ends with it. */
  readonly remedy?: string | undefined
  /** The message quotes the agent, so it must not get into a log. */
  readonly quotesAgent?: boolean
  /** The status of the answer, or an equivalent one. It tells the downstream how much load the agent can take. */
  readonly status?: number | undefined
}

export class AgentFault extends Error {
  override readonly name = 'AgentFault'
  readonly code: string
  readonly isFinal: boolean
  readonly afterMs: number | undefined
  readonly detail: string | undefined
  readonly remedy: string | undefined
  readonly status: number | undefined
  readonly quotesAgent: boolean

  constructor(
    code: string,
    message: string,
    { isFinal, afterMs, detail, remedy, status, quotesAgent }: What,
  ) {
    super(message)
    this.code = code
    this.isFinal = isFinal
    this.afterMs = afterMs
    this.detail = detail
    this.remedy = remedy
    this.status = status
    this.quotesAgent = quotesAgent ?? false
  }
}

const BUSY_MS = { least: 1_000, unsaid: 5_000 }

/** The agent, or something that it relies on, is overloaded. It is called later, and the attempt does not count. */
export function busy(message: string, toldMs?: number): Retry {
  const afterMs = Math.max(BUSY_MS.least, toldMs ?? BUSY_MS.unsaid)
  return new Retry('rate_limited', message, { afterMs, fields: { toldMs } })
}

/** What the downstream is told about a failed call: a status, and how long the agent asked us to wait. */
export function answerIn(
  error: unknown,
): { readonly status: number; readonly waitMs: number | undefined } | undefined {
  if (error instanceof AgentFault)
    return error.status === undefined ? undefined : { status: error.status, waitMs: error.afterMs }
  if (!(error instanceof Retry) || !('toldMs' in error.fields)) return undefined
  return { status: 429, waitMs: error.fields['toldMs'] as number | undefined }
}
