// The frames that a follower of a session receives, in order. Over server-sent events a frame is the `data:` of an event of the
// same type. The `id:` is the position to resume from: a reader that sends it back as Last-Event-ID misses nothing. The frames of
// a turn are turn (queued), turn (running), chunks …, messages (with its item), turn (done, failed or stopped). A turn that was
// stopped while it ran is sent once more when it has halted, unless the next turn has begun by then.
import type { Chunk } from './chunk.ts'
import type { ErrorCode } from './codes.ts'
import type { Id } from './ids.ts'
import type { Item } from './message.ts'
import type { Turn } from './turn.ts'

/** Committed items, ascending, without a gap: the first one directly follows the last item sent before. */
export type MessagesFrame = {
  readonly type: 'messages'
  readonly session: Id<'session'>
  readonly items: readonly Item[]
  /** The session's last seq when these were read. */
  readonly head: number
}

/**
 * The reader asked for what follows `from` - 1, but the session is not that long: the reader has data of another history (from
 * before a backup was restored). The reader must forget its data of this session; the next item is `to` + 1.
 */
export type GapFrame = {
  readonly type: 'gap'
  readonly session: Id<'session'>
  readonly reason: 'diverged'
  readonly from: number
  readonly to: number
}

/** A turn of this session as it is now: waiting, running or ended. */
export type TurnFrame = {
  readonly type: 'turn'
  readonly session: Id<'session'>
  readonly turn: Turn
}

/**
 * What the agent has said, before it is in the log: chunks `index` to `index` + `count` - 1 of an attempt, with deltas merged.
 * The message is open until its item arrives or its turn has failed; a failed turn voids it. A frame with `index` 0 starts the
 * message again. So does a higher attempt, whose first chunk has index 0 again.
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

/** These messages were erased. The reader must forget their parts, their metadata and the ids of their authors. */
export type ErasedFrame = {
  readonly type: 'erased'
  readonly session: Id<'session'>
  readonly seqs: readonly number[]
}

export type Frame = MessagesFrame | GapFrame | TurnFrame | ChunksFrame | ErasedFrame

/** The last event of a stream whose reader is not let in any more: its token has expired, its key was revoked, or it is not a
 *  member any more, or the session was erased. It has no id. With a valid token, a reader resumes after the event before it. */
export type EndedFrame = {
  readonly type: 'ended'
  readonly code: ErrorCode
  readonly text: string
}

/** A part of a session's log, ascending. More follows while its last seq is below the head. */
export type Page = { readonly items: readonly Item[]; readonly head: number }

export const PAGE_LIMITS = {
  items: 100,
  /** A page ends with the item whose body brings it to this size or above. */
  bytes: 2_097_152,
  seq: 2_147_483_647,
} as const
