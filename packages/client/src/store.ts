// What a device has of a session, and who looks at it. A snapshot is never changed: after a change there is another one.
import type { Frame, Turn } from '@fleetline/protocol'
import type { Refusal } from './failure.ts'
import type { Connection } from './stream.ts'
import {
  EMPTY,
  messagesOf,
  statusOf,
  step,
  type Effect,
  type Message,
  type Own,
  type Status,
  type View,
} from './view.ts'

export type Snapshot = {
  readonly messages: readonly Message[]
  /** The last seq that is here. */
  readonly head: number
  readonly status: Status
  /** The live one, or the last. */
  readonly turn: Turn | null
  readonly connection: Connection
  /** Why the session cannot be followed, if `connection` is refused. */
  readonly refusal: Refusal | null
}
export type Link = Pick<Snapshot, 'connection' | 'refusal'>

export type Store = {
  readonly view: () => View
  readonly take: (event: Frame | Own) => readonly Effect[]
  readonly setLink: (link: Link) => void
  readonly get: () => Snapshot
  readonly subscribe: (listener: () => void) => () => void
}

export function createStore(): Store {
  const listeners = new Set<() => void>()
  let [view, link]: [View, Link] = [EMPTY, { connection: 'connecting', refusal: null }]
  let shown: Snapshot | undefined
  const changed = () => {
    shown = undefined
    for (const listener of listeners) listener()
  }
  return {
    view: () => view,
    take: (event) => {
      const next = step(view, event)
      const isNew = next.view !== view
      view = next.view
      if (isNew) changed()
      return next.effects
    },
    setLink: (next) => {
      link = next
      changed()
    },
    get: () => (shown ??= snapshotOf(view, link)),
    subscribe: (listener) => {
      const own = () => listener() // twice the same listener is two
      listeners.add(own)
      return () => void listeners.delete(own)
    },
  }
}

function snapshotOf(view: View, link: Link): Snapshot {
  const { head, turn } = view
  const messages = Object.freeze(messagesOf(view))
  return Object.freeze({ messages, head, status: statusOf(view), turn, ...link })
}
