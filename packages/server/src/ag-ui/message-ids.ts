// Which AG-UI messages a reply becomes, and their ids. AG-UI has a message for each text with the tool calls behind it, for each
// reasoning, for each result of a tool and for each other part. Live and stored replies are split in the same way, by the order of their
// parts. The first message has the id of the reply, the others that id and a number, which no reply has. Reasonings have ids of their own:
// a reader keeps those of an attempt that was lost, so the next attempt needs others (`mark`).
export type MessageIds = {
  /** A step begins: later tool calls belong to another message. */
  readonly startStep: () => void
  /** A text: a new message. */
  readonly forText: () => string
  /** A tool call: the message of its step that is open, or a new one. */
  readonly forCall: () => string
  readonly forReasoning: () => string
  /** Anything else: a message of its own. */
  readonly forOther: () => string
}

export function createMessageIds(reply: string, mark = ''): MessageIds {
  let [count, reasonings, current]: [number, number, string | undefined] = [0, 0, undefined]
  const next = () => {
    count += 1
    return count === 1 ? reply : `${reply}.${count}`
  }
  return {
    startStep: () => void (current = undefined),
    forText: () => (current = next()),
    forCall: () => (current ??= next()),
    forReasoning: () => {
      reasonings += 1
      return `${reply}.reasoning-${reasonings}${mark}`
    },
    forOther: next,
  }
}

/** The id of a call for readers. An agent may use an id again in its next reply, but AG-UI has one call with an id. */
export function idOfCall(reply: string, toolCallId: string): string {
  return `${reply}.${toolCallId}`
}

export function idOfResult(reply: string, toolCallId: string): string {
  return `${reply}.result-${toolCallId}`
}
