// What a follower of a session is told, in order. Over server-sent events a frame is the `data:` of an event that bears
// its type, and the `id:` is where to go on: sent back as Last-Event-ID, nothing is missed.
import type { Id } from './ids.ts'
import type { Item } from './message.ts'

/** Committed items, ascending, without a hole: the first stands right behind the last one told before. */
export type MessagesFrame = {
  readonly type: 'messages'
  readonly session: Id<'session'>
  readonly items: readonly Item[]
  /** The session's last seq when these were read. */
  readonly head: number
}

/**
 * The reader asked for what follows `from` - 1, and the session is not that long: what it holds is of another history
 * (a restored backup). It forgets what it holds of this session; the next item is `to` + 1.
 */
export type GapFrame = {
  readonly type: 'gap'
  readonly session: Id<'session'>
  readonly reason: 'diverged'
  readonly from: number
  readonly to: number
}

export type Frame = MessagesFrame | GapFrame

/** A part of a session's log, ascending. There is more ahead while its last seq is below the head. */
export type Page = { readonly items: readonly Item[]; readonly head: number }

export const PAGE_LIMITS = {
  items: 100,
  /** A page ends with the item whose body takes it to this or beyond. */
  bytes: 2_097_152,
  seq: 2_147_483_647,
} as const
