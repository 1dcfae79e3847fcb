// What a page sees of an inbox at one moment.
import type { InboxItem } from '@fleetline/protocol'
import type { Refusal } from './failure.ts'
import type { Connection } from './standing.ts'

export type InboxSnapshot = {
  /** In the order of `show`: the newest first, or by attention. */
  readonly sessions: readonly InboxItem[]
  /** Of the newest 1,000 sessions that are not archived. */
  readonly unreadTotal: number
  readonly attentionTotal: number
  /** True until the first page has arrived. */
  readonly loading: boolean
  /** There are more sessions: `loadMore`. */
  readonly hasMore: boolean
  readonly connection: Connection
  /** Why the inbox cannot be followed, if `connection` is refused. */
  readonly refusal: Refusal | null
}

/** Before anything is known. Always the same object, so that a component does not render again. */
export const NO_INBOX: InboxSnapshot = Object.freeze({
  sessions: Object.freeze([]),
  unreadTotal: 0,
  attentionTotal: 0,
  loading: true,
  hasMore: false,
  connection: 'connecting',
  refusal: null,
})
