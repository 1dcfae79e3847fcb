// The chat of the AI SDK, as `useChat` has it, without React.
import { AbstractChat, type ChatState, type ChatTransport, type UIMessage } from 'ai'

type Options = {
  readonly id: string
  readonly transport: ChatTransport<UIMessage>
  readonly messages?: readonly UIMessage[]
  /** Of another release. */
  readonly Chat?: typeof AbstractChat
}

class PlainState implements ChatState<UIMessage> {
  status: ChatState<UIMessage>['status'] = 'ready'
  error: Error | undefined = undefined
  messages: UIMessage[]
  constructor(messages: readonly UIMessage[]) {
    this.messages = [...messages]
  }
  pushMessage = (message: UIMessage): void => void (this.messages = [...this.messages, message])
  popMessage = (): void => void (this.messages = this.messages.slice(0, -1))
  replaceMessage = (index: number, message: UIMessage): void =>
    void (this.messages = this.messages.with(index, structuredClone(message)))
  snapshot = <Value>(value: Value): Value => structuredClone(value)
}

/** A chat that keeps its messages in memory. */
export function chatOf({
  id,
  transport,
  messages = [],
  Chat = AbstractChat,
}: Options): AbstractChat<UIMessage> {
  class PlainChat extends Chat<UIMessage> {}
  const state = new PlainState(messages)
  return new PlainChat({
    id,
    transport,
    state,
    onError: () => undefined, // `status` and `error` say it
  })
}
