// What went wrong with an agent: its own doing, or that of the way to it, never ours.
import { Retry } from '../errors.ts'

type What = {
  /** The same would come again. */
  readonly isFinal: boolean
  /** It asked not to be called before. */
  readonly afterMs?: number | undefined
  /** For operators. */
  readonly detail?: string | undefined
  /** What it was answered with, or as good as: what that says about how much the agent can take. */
  readonly status?: number | undefined
}

export class AgentFault extends Error {
  override readonly name = 'AgentFault'
  readonly code: string
  readonly isFinal: boolean
  readonly afterMs: number | undefined
  readonly detail: string | undefined
  readonly status: number | undefined

  constructor(code: string, message: string, { isFinal, afterMs, detail, status }: What) {
    super(message)
    this.code = code
    this.isFinal = isFinal
    this.afterMs = afterMs
    this.detail = detail
    this.status = status
  }
}

const BUSY_MS = { least: 1_000, unsaid: 5_000 }

/** Of an agent, or of what it relies on, that has enough to do: it is called later, which does not count. */
export function busy(message: string, toldMs?: number): Retry {
  const afterMs = Math.max(BUSY_MS.least, toldMs ?? BUSY_MS.unsaid)
  return new Retry('rate_limited', message, { afterMs, fields: { toldMs } })
}

/** What its downstream is told about a failed call: a status, and how long it asked to be left alone. */
export function answerIn(
  error: unknown,
): { readonly status: number; readonly waitMs: number | undefined } | undefined {
  if (error instanceof AgentFault)
    return error.status === undefined ? undefined : { status: error.status, waitMs: error.afterMs }
  if (!(error instanceof Retry) || !('toldMs' in error.fields)) return undefined
  return { status: 429, waitMs: error.fields['toldMs'] as number | undefined }
}
