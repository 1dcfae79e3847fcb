// What a follower of a session is told, in order. Over server-sent events a frame is the `data:` of an event that bears
// its type, and the `id:` is where to go on: sent back as Last-Event-ID, nothing is missed. A turn is told as
// turn (queued), turn (running), chunks …, messages (with its item), turn (done, failed or stopped); of one that was stopped
// while it ran, once more when it has halted, unless the next turn has begun by then.
import type { Chunk } from './chunk.ts'
import type { Id } from './ids.ts'
import type { Item } from './message.ts'
import type { Turn } from './turn.ts'

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

/** A turn of this session as it is now: it waits, runs, or has ended. */
export type TurnFrame = {
  readonly type: 'turn'
  readonly session: Id<'session'>
  readonly turn: Turn
}

/**
 * What the agent has said since, before it is in the log: chunks `index` to `index` + `count` - 1 of an attempt, deltas
 * merged. The message is open until its item comes, or its turn has failed, and is void then. One with `index` 0 begins it
 * anew; so does a higher attempt, whose first chunk has index 0 again.
 */
export type ChunksFrame = {
  readonly type: 'chunks'
  readonly session: Id<'session'>
  readonly turn: Id<'turn'>
  readonly attempt: number
  readonly index: number
  readonly count: number
  readonly chunks: readonly Chunk[]
}

export type Frame = MessagesFrame | GapFrame | TurnFrame | ChunksFrame

/** A part of a session's log, ascending. There is more ahead while its last seq is below the head. */
export type Page = { readonly items: readonly Item[]; readonly head: number }

export const PAGE_LIMITS = {
  items: 100,
  /** A page ends with the item whose body takes it to this or beyond. */
  bytes: 2_097_152,
  seq: 2_147_483_647,
} as const
