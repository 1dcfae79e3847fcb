// What went wrong with an agent: its own doing, or that of the way to it, never ours.

type What = {
  /** The same would come again. */
  readonly isFinal: boolean
  /** It asked not to be called before. */
  readonly afterMs?: number | undefined
}

export class AgentFault extends Error {
  override readonly name = 'AgentFault'
  readonly code: string
  readonly isFinal: boolean
  readonly afterMs: number | undefined

  constructor(code: string, message: string, { isFinal, afterMs }: What) {
    super(message)
    this.code = code
    this.isFinal = isFinal
    this.afterMs = afterMs
  }
}
