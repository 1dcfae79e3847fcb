// The public entry of @fleetline/client/assistant-ui: a session as the store of assistant-ui, and an inbox as its list of threads. Plain
// objects: neither React nor assistant-ui is loaded. Guarantees:
//   a message that has not changed is the same object, so that assistant-ui renders nothing else
//   assistant-ui shows what the session shows: it keeps no message that has left the conversation, nor one of another session
//   a reply that is on its way, or that failed before it said anything, has a place of its own
// The second one is why the messages are given as a repository, too: of a plain list, assistant-ui keeps what disappears as other branches.
import type { Turn } from '@fleetline/protocol'
import { inputOf, type AppendMessage } from './assistant-ui-input.ts'
import { threadMessageOf, type ThreadMessage } from './assistant-ui-message.ts'
import { remembered } from './remembered.ts'
import type { Session } from './session.ts'
import type { Snapshot } from './store.ts'
import type { Message, Status } from './view.ts'

export type { AppendMessage } from './assistant-ui-input.ts'
export type { ThreadMessage } from './assistant-ui-message.ts'
export {
  toThreadList,
  type ShownInbox,
  type Thread,
  type ThreadList,
  type ThreadListOptions,
} from './assistant-ui-threads.ts'

/** A snapshot of a session with its functions, as `useSession` returns it. */
export type ShownSession = Pick<Snapshot, 'messages' | 'head' | 'status' | 'turn' | 'loading' | 'refusal'> &
  Pick<Session, 'send' | 'stop' | 'regenerate' | 'edit' | 'discard'>
export type StoreOptions = {
  /** Gets the error of a message that could not be sent, of an edit, of a reply that could not be regenerated, and of a stop. assistant-ui
   *  does not show them. */
  readonly onError?: (error: unknown) => void
}
/** An `ExternalStoreAdapter` of assistant-ui. */
export type ExternalStore = Messages & {
  readonly isRunning: boolean
  readonly isLoading: boolean
  /** The session cannot be followed. */
  readonly isDisabled: boolean
  readonly onNew: (message: AppendMessage) => Promise<void>
  readonly onEdit: (message: AppendMessage) => Promise<void>
  readonly onReload: (
    parentId: string | null,
    config?: { readonly sourceId?: string | null },
  ) => Promise<void>
  readonly onCancel: () => Promise<void>
}
type Messages = {
  readonly messages: readonly ThreadMessage[]
  /** The same. assistant-ui uses this one. */
  readonly messageRepository: {
    readonly headId: string | null
    readonly messages: { readonly message: ThreadMessage; readonly parentId: string | null }[]
  }
}

export function toExternalStore(session: ShownSession, { onError }: StoreOptions = {}): ExternalStore {
  const { messages, status, loading, refusal } = session
  const shown = messagesOf(session)
  const childOf = (parent: string | null) =>
    shown.messageRepository.messages.find(({ parentId }) => parentId === parent)?.message.id
  const attempt = async (work: () => Promise<unknown>) => {
    try {
      await work()
    } catch (error) {
      if (!onError) throw error
      onError(error)
    }
  }
  return {
    ...shown,
    isRunning: RUNNING.has(status),
    isLoading: loading,
    isDisabled: refusal !== null,
    onNew: async (message) => {
      try {
        session.send(inputOf(message)) // whether it is stored, its delivery shows
      } catch (error) {
        onError?.(error)
        throw Object.assign(error as Error, NOT_SENT)
      }
    },
    onEdit: (message) =>
      attempt(async () => {
        const id = message.sourceId ?? childOf(message.parentId)
        const isRejected = messages.some((one) => one.id === id && one.delivery === 'failed')
        if (id !== undefined && !isRejected) return session.edit(id, inputOf(message))
        session.send(inputOf(message)) // nothing is stored that it would replace
        if (id !== undefined) session.discard(id)
      }),
    onReload: (parentId, { sourceId } = {}) =>
      attempt(() => {
        const id = sourceId ?? childOf(parentId) ?? parentId ?? undefined
        return session.regenerate(id === silentTurnOf(session)?.message ? askedIn(session) : id)
      }),
    onCancel: () => attempt(session.stop),
  }
}

const RUNNING: ReadonlySet<Status> = new Set<Status>(['waiting', 'working', 'streaming', 'recovering'])

/** assistant-ui puts the text of such an error's message back into the composer. */
const NOT_SENT = { [Symbol.for('assistant-ui.message-not-sent')]: true }

type Known = Pick<ShownSession, 'status' | 'turn'> & { readonly shown: Messages }
const known = new WeakMap<readonly Message[], Known>()

function messagesOf(session: ShownSession): Messages {
  const { messages: given, status, turn } = session
  const before = known.get(given)
  if (before?.status === status && before.turn === turn) return before.shown
  const messages = withSilentReply(session).map((message) => threadMessageOf(message, turn))
  const links = messages.map((message, n) => ({ message, parentId: messages[n - 1]?.id ?? null }))
  const shown = { messages, messageRepository: { headId: messages.at(-1)?.id ?? null, messages: links } }
  known.set(given, { status, turn, shown })
  return shown
}

/** The turn, if its reply is not among the messages. */
function silentTurnOf({ messages, turn }: Pick<ShownSession, 'messages' | 'turn'>): Turn | undefined {
  return turn && !messages.some(({ id }) => id === turn.message) ? turn : undefined
}

/** Adds the reply of a turn that has said nothing yet, or that failed without a word. Messages that are not stored stand behind a failure. */
function withSilentReply(session: ShownSession): readonly Message[] {
  const { messages, head, status } = session
  const turn = silentTurnOf(session)
  if (turn?.endedAt === null && RUNNING.has(status)) return [...messages, silentReplyOf(turn)]
  if (turn?.state !== 'failed' || status !== 'failed') return messages
  const stored = messages.filter(({ seq }) => seq !== null && seq <= head)
  return [...stored, silentReplyOf(turn), ...messages.slice(stored.length)]
}

const silentReplyOf = remembered(({ id, message, agent, state }: Turn): Message => {
  const author = { kind: 'agent', id: agent } as const
  const said = {
    id: message,
    role: 'assistant',
    parts: [],
    seq: null,
    delivery: 'open',
    author,
    turn: id,
  } as const
  return state === 'failed' ? { ...said, status: 'failed' } : said
})

/** The last message of a user that the turn was to answer. */
function askedIn({ messages, head, turn }: ShownSession): string | undefined {
  const to = turn?.answers.to ?? head
  return messages.findLast(({ role, seq }) => role === 'user' && seq !== null && seq <= to)?.id
}
