// A device's state of a session, and its listeners. A snapshot never changes: each change makes a new one.
import type { Frame, Turn } from '@fleetline/protocol'
import type { Refusal } from './failure.ts'
import { createListeners } from './listeners.ts'
import type { Connection } from './standing.ts'
import {
  EMPTY,
  messagesOf,
  statusOf,
  step,
  type Message,
  type Own,
  type Paged,
  type Status,
  type View,
} from './view.ts'

export type Snapshot = {
  readonly messages: readonly Message[]
  /** The last seq that is here. */
  readonly head: number
  /** Whether older messages are stored: `loadOlder` loads them. */
  readonly hasOlder: boolean
  /** True until all that was stored when the session was opened is here. */
  readonly loading: boolean
  readonly status: Status
  /** The live turn, or the last one. */
  readonly turn: Turn | null
  readonly connection: Connection
  /** Why the session cannot be followed, if `connection` is refused. */
  readonly refusal: Refusal | null
}
type Link = Pick<Snapshot, 'connection' | 'refusal'>
type Event = Frame | Paged | Own

export type Store = {
  readonly view: () => View
  /** Returns true if something was missed. */
  readonly take: (event: Event) => boolean
  /** The head up to which `loading` lasts. The lowest one counts, because a restored log may be shorter. */
  readonly setGoal: (head: number) => void
  readonly setLink: (link: Link) => void
  readonly get: () => Snapshot
  readonly subscribe: (listener: () => void) => () => void
}

/** `onSent` is called before the listeners. */
export function createStore(onSent: (id: string, seq: number) => void): Store {
  const listeners = createListeners()
  let [view, link]: [View, Link] = [EMPTY, { connection: 'connecting', refusal: null }]
  let shown: Snapshot | undefined
  let goal: number | undefined
  let loading = true
  const least = (head: number) => Math.min(goal ?? head, head)
  const changed = () => {
    loading &&= goal === undefined || view.head < goal
    shown = undefined
    listeners.tell()
  }
  return {
    view: () => view,
    take: (event) => {
      const { view: next, effects } = step(view, event)
      if (event.type === 'messages') goal = least(event.head)
      const isNew = next !== view
      view = next
      for (const effect of effects) if (effect.type === 'sent') onSent(effect.id, effect.seq)
      if (isNew) changed()
      return effects.some(({ type }) => type === 'ask')
    },
    setGoal: (head) => {
      goal = least(head)
      changed()
    },
    setLink: (next) => {
      link = next
      changed()
    },
    get: () => (shown ??= snapshotOf(view, link, loading)),
    subscribe: listeners.subscribe,
  }
}

function snapshotOf(view: View, link: Link, loading: boolean): Snapshot {
  const { base, head, turn } = view
  const messages = Object.freeze(messagesOf(view))
  const isLoading = loading && link.connection !== 'refused'
  const shown = { messages, head, hasOlder: base > 0, loading: isLoading, status: statusOf(view), turn }
  return Object.freeze({ ...shown, ...link })
}
