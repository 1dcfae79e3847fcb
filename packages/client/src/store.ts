// A device's state of a session, and its listeners. A snapshot never changes: each change makes a new one.
import type { Frame, Turn } from '@fleetline/protocol'
import type { Refusal } from './failure.ts'
import { createListeners } from './listeners.ts'
import type { Connection } from './stream.ts'
import { EMPTY, messagesOf, statusOf, step, type Message, type Own, type Status, type View } from './view.ts'

export type Snapshot = {
  readonly messages: readonly Message[]
  /** The last seq that is here. */
  readonly head: number
  readonly status: Status
  /** The live turn, or the last one. */
  readonly turn: Turn | null
  readonly connection: Connection
  /** Why the session cannot be followed, if `connection` is refused. */
  readonly refusal: Refusal | null
}
type Link = Pick<Snapshot, 'connection' | 'refusal'>

export type Store = {
  readonly view: () => View
  /** Returns true if something was missed. */
  readonly take: (event: Frame | Own) => boolean
  readonly setLink: (link: Link) => void
  readonly get: () => Snapshot
  readonly subscribe: (listener: () => void) => () => void
}

/** `onSent` is called before the listeners. */
export function createStore(onSent: (id: string, seq: number) => void): Store {
  const listeners = createListeners()
  let [view, link]: [View, Link] = [EMPTY, { connection: 'connecting', refusal: null }]
  let shown: Snapshot | undefined
  const changed = () => {
    shown = undefined
    listeners.tell()
  }
  return {
    view: () => view,
    take: (event) => {
      const { view: next, effects } = step(view, event)
      const isNew = next !== view
      view = next
      for (const effect of effects) if (effect.type === 'sent') onSent(effect.id, effect.seq)
      if (isNew) changed()
      return effects.some(({ type }) => type === 'ask')
    },
    setLink: (next) => {
      link = next
      changed()
    },
    get: () => (shown ??= snapshotOf(view, link)),
    subscribe: listeners.subscribe,
  }
}

function snapshotOf(view: View, link: Link): Snapshot {
  const { head, turn } = view
  const messages = Object.freeze(messagesOf(view))
  return Object.freeze({ messages, head, status: statusOf(view), turn, ...link })
}
