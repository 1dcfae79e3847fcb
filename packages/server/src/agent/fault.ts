// What went wrong with an agent: its own doing, or that of the way to it, never ours.
import { Retry } from '../errors.ts'

type What = {
  /** The same would come again. */
  readonly isFinal: boolean
  /** It asked not to be called before. */
  readonly afterMs?: number | undefined
  /** For operators. */
  readonly detail?: string | undefined
}

export class AgentFault extends Error {
  override readonly name = 'AgentFault'
  readonly code: string
  readonly isFinal: boolean
  readonly afterMs: number | undefined
  readonly detail: string | undefined

  constructor(code: string, message: string, { isFinal, afterMs, detail }: What) {
    super(message)
    this.code = code
    this.isFinal = isFinal
    this.afterMs = afterMs
    this.detail = detail
  }
}

const BUSY_MS = { least: 1_000, unsaid: 5_000 }

/** Of an agent, or of what it relies on, that has enough to do: it is called later, which does not count. */
export function busy(message: string, afterMs = BUSY_MS.unsaid): Retry {
  return new Retry('rate_limited', message, { afterMs: Math.max(BUSY_MS.least, afterMs) })
}
