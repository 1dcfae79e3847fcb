// The inbox of a user: the sessions of which the user is a member, as the API sends them, and the frame that a follower of the
// inbox receives.
import type { Id } from './ids.ts'
import type { Role } from './message.ts'

export type InboxItem = {
  readonly session: Id<'session'>
  readonly alias: string | null
  readonly title: string | null
  readonly agent: string | null
  readonly archived: boolean
  /** The last seq of the session. */
  readonly head: number
  /** The seq up to which the user has read. A message that names the user as its author moves it to that message. */
  readonly read: number
  /** How many messages come after `read`. */
  readonly unread: number
  /** The last message; null in an empty session. */
  readonly preview: InboxPreview | null
  /** The first of `ATTENTIONS` that applies. */
  readonly attention: Attention | null
  /** The live turn. */
  readonly turn: { readonly id: Id<'turn'>; readonly since: string } | null
  /** When the last message was appended, or a turn failed. RFC 3339, UTC. */
  readonly updatedAt: string
  /** Of two items of a session, the one with the higher number is newer. */
  readonly rev: number
}

export type InboxPreview = {
  readonly seq: number
  readonly role: Role
  /** The first characters (code points) of its last text, at most `INBOX_LIMITS.preview`. */
  readonly text: string
}

/** `failed`: the last turn that ended has failed, and since then the user has neither read to the end nor sent a message. `working`: a
 *  turn is live, or the conversation is being summarised. `finished`: there is a reply that the user has not read. */
export const ATTENTIONS = ['failed', 'working', 'finished'] as const
export type Attention = (typeof ATTENTIONS)[number]

/** `all`: all that are not archived. */
export const INBOX_SHOWS = ['all', 'unread', 'attention', 'archived'] as const
export type InboxShow = (typeof INBOX_SHOWS)[number]

/** How many of the user's newest sessions have unread messages, and how many need attention. */
export type InboxTotals = { readonly unreadTotal: number; readonly attentionTotal: number }

/** A page of the inbox. `next` is the cursor of the next page; null on the last one. */
export type InboxPage = InboxTotals & {
  readonly items: readonly InboxItem[]
  readonly next: string | null
}

/**
 * `reset`: the items are the first page; forget all others. Otherwise they are items that have changed, each as it is now. Keep an
 * item if its `rev` is higher than what you have. `removed`: sessions of which the user is not a member any more.
 */
export type InboxFrame = InboxTotals & {
  readonly type: 'inbox'
  /** Grows by one with each frame of a stream. */
  readonly revision: number
  readonly reset: boolean
  readonly items: readonly InboxItem[]
  readonly removed: readonly { readonly session: Id<'session'>; readonly rev: number }[]
  /** With `reset`: the cursor of the next page; null if there is none. */
  readonly next?: string | null
}

/** The answer to a user who has read. */
export type ReadAck = { readonly read: number; readonly unread: number }

export const INBOX_LIMITS = {
  preview: 140,
  /** Totals, and the views of unread sessions and those that need attention, are of this many newest sessions. */
  newest: 1_000,
} as const
