// What went wrong with an agent: its own doing, or that of the way to it, never ours.

type More = { /** It asked not to be called before. */ readonly afterMs?: number | undefined }

/** `isFinal`: the same would come again. */
export class AgentFault extends Error {
  override readonly name = 'AgentFault'
  readonly code: string
  readonly isFinal: boolean
  readonly afterMs: number | undefined

  constructor(code: string, message: string, isFinal: boolean, { afterMs }: More = {}) {
    super(message)
    this.code = code
    this.isFinal = isFinal
    this.afterMs = afterMs
  }
}
