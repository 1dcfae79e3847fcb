// What a batch of changes to sessions consists of: its items, what is read for them, what becomes of them, and what is written.
import { parseId, type ItemStatus, type Role, type SeqRange } from '@fleetline/protocol'
import type { ContextSize } from '../conversation/budget.ts'
import type { Conversation, LiveTurn, TurnStart } from '../conversation/step.ts'
import type { HELD } from '../lib/batcher.ts'
import type { AttemptUsage } from '../usage/record.ts'
import type { MessageDraft } from './draft.ts'

export type SessionKey = { readonly tenant: number; readonly session: string }

export type Append = SessionKey & {
  readonly draft: MessageDraft
  /** Append only if this is the head. */
  readonly ifHead?: number
  /** The message asks for a reply: in a session with an agent, a turn answers it. */
  readonly asks?: boolean
}

/** Present while the message waits for its reply. `live` is the live turn; this turn or the next one answers the message (E4). While the
 *  conversation is summarised, there is only `nextEpoch`: that of the turn that will answer. */
type Waiting = { readonly live?: LiveTurn; readonly nextEpoch?: number }
export type Appended =
  | ({ readonly type: 'stored'; readonly seq: number; readonly deduped: boolean } & Waiting)
  | { readonly type: 'not-found' }
  /** The message was erased; without a seq, the whole session. */
  | { readonly type: 'gone'; readonly seq: number | undefined }
  /** No seq: the id belongs to a reply that is not in the log yet. */
  | { readonly type: 'conflict'; readonly seq: number | undefined }
  | { readonly type: 'stale'; readonly head: number }

/** The attempt that ran a turn ends it, under both fences: the conversation's and the task's. */
export type TurnEnd = SessionKey &
  LiveTurn & {
    readonly attempt: number
    readonly pod: number
    /** Of the session, when the agent's messages were read. Undefined: they were not read. */
    readonly eraseCount?: number | undefined
    /** Undefined if its agent was not called. */
    readonly used?: AttemptUsage | undefined
  } & (
    | {
        readonly outcome: 'done'
        /** Undefined: the agent had nothing to say. */ readonly draft: MessageDraft | undefined
        /** If its agent compacts conversations. */
        readonly size?: ContextSize | undefined
      }
    | {
        readonly outcome: 'failed'
        readonly error: TurnError
        /** What the agent said before it failed. */
        readonly draft: MessageDraft | undefined
      }
  )
export type TurnError = { readonly code: string; readonly message: string }
export type TurnEnded = { readonly type: 'ended' } | { readonly type: 'fenced' }

/** Ends a turn whichever pod runs it, under the fence of the conversation only. */
export type Stop = SessionKey & LiveTurn
export type Stopped =
  | { readonly type: 'stopped'; readonly seq: number | null; readonly isRepeat: boolean }
  | { readonly type: 'stale' }
  | { readonly type: 'not-found' }

/** Writes a reply anew, or puts another message in the place of a user's message. What came behind it leaves the conversation, and a turn
 *  starts. */
export type Rewrite = SessionKey & {
  readonly epoch: number
  /** The SHA-256 of the command in hex, without the words of its message: a repeat has the same. */
  readonly cause: string
  /** The key of the message; null: the last one. */
  readonly target: string | null
  /** The message that takes the place of the target. Undefined: the reply is written anew. */
  readonly draft?: MessageDraft
  /** The target must be a message of this user. */
  readonly onlyOf?: string | undefined
  /** Only if this is the head. */
  readonly ifHead?: number | undefined
}
export type Rewritten =
  /** `seq`: of the new message. */
  | {
      readonly type: 'rewritten'
      readonly seq: number | null
      readonly turn: LiveTurn
      readonly isRepeat: boolean
    }
  | { readonly type: 'not-found' }
  | { readonly type: 'no-message' }
  /** Without a seq: the whole session. */
  | { readonly type: 'gone'; readonly seq: number | undefined }
  | { readonly type: 'conflict'; readonly seq: number | undefined }
  | { readonly type: 'unfit'; readonly why: 'no-agent' | 'role' | 'author' | 'unasked' | 'too-many' }
  | ({ readonly type: 'stale'; readonly head: number } & Pick<Conversation, 'epoch' | 'turn'> & {
        readonly isCompacting: boolean
      })

/** Ends a turn that no pod runs. */
export type Expiry = Stop & { readonly error: TurnError }

/** Ends a compaction. `pod` is the pod of the attempt that ran it; null: the leader ends it, because its time is over and no pod has it. */
export type CompactionEnd = SessionKey & {
  readonly compaction: string
  readonly attempt: number
  readonly pod: number | null
} & (
    | {
        readonly outcome: 'done'
        readonly upto: number
        readonly text: string
        /** Of the session, when the messages were read. */
        readonly eraseCount: number
        /** It could not cover all messages: for the compaction that follows. */
        readonly more?: ContextSize | undefined
      }
    | { readonly outcome: 'failed'; readonly code: string }
  )

/** A member has read the session up to this seq. */
export type MarkRead = SessionKey & { readonly user: string; readonly seq: number }
export type MarkedRead =
  | { readonly type: 'read'; readonly read: number; readonly unread: number }
  | { readonly type: 'not-found' }

export type Item =
  | ({ readonly type: 'message' } & Append)
  | ({ readonly type: 'end' } & TurnEnd)
  | ({ readonly type: 'stop' } & Stop)
  | ({ readonly type: 'rewrite' } & Rewrite)
  | ({ readonly type: 'expire' } & Expiry)
  | ({ readonly type: 'read' } & MarkRead)
  | ({ readonly type: 'compacted' } & CompactionEnd)
export type Result = Appended | TurnEnded | Stopped | Rewritten | MarkedRead

export type SessionState = SessionKey &
  Conversation & {
    readonly head: number
    readonly agent: string | null
    /** The seq of the last message of the role assistant. */
    readonly replied: number
    /** The epoch of the last turn that ended, if it failed. */
    readonly failedEpoch: number | null
    /** The seq up to which the newest summary reaches. */
    readonly summarised: number
    /** After a compaction has failed: the seq from which on another one may start. */
    readonly nextTrySeq: number
    /** Counts changes that move neither head nor phase. */
    readonly version: number
    readonly isArchived: boolean
    readonly isErased: boolean
    /** How many batches of its messages were erased. */
    readonly eraseCount: number
    /** The messages that this batch takes out of the conversation. Those of earlier batches are in the row only. */
    readonly replaced?: readonly SeqRange[]
  }
/** How far a member has read, and the last epoch whose end it has seen. */
export type ReadCursor = { readonly read: number; readonly seenEpoch: number }
export type StoredMessage = { readonly seq: number; readonly digest: string; readonly isErased: boolean }
/** A turn: how far it has read, which attempt ended it or was stopped, and how. */
export type TurnRow = Pick<SessionKey, 'session'> & {
  readonly epoch: number
  readonly agent: string
  readonly readFrom: number
  readonly askedFrom: number | null
  readonly readTo: number | null
  /** The messages in whose place its reply will stand; null unless it writes a reply anew. */
  readonly replaces: readonly SeqRange[] | null
  readonly endedBy: number | null
  readonly outcome: Closed['outcome'] | null
}
/** A live turn that is to be stopped or to expire: which pod has it, and what it has said so far. */
export type Open = {
  readonly attempt: number
  readonly pod: number | null
  readonly said: MessageDraft | undefined
  /** What its attempts have used, as far as nobody else writes that. */
  readonly used: readonly AttemptUsage[]
}

/** What is stored that a rewrite needs to know. */
export type RewriteFindings = {
  /** The turn that this command has started before, and the seq of the message that it has stored. */
  readonly repeat: { readonly turn: LiveTurn; readonly seq: number | null } | undefined
  /** The target is the reply of the live turn. */
  readonly isOpen: boolean
  readonly target: RewriteTarget | undefined
  /** How many ranges of seqs have left the conversation. */
  readonly ranges: number
}
export type RewriteTarget = {
  readonly seq: number
  readonly role: Role
  /** The user who has written it. */
  readonly author: string | null
  readonly isErased: boolean
  /** It belongs to the conversation no more. */
  readonly isReplaced: boolean
  /** The seqs of later replies that answer only what came before it. */
  readonly kept: readonly number[]
  /** The seq of the last user's message up to it. */
  readonly askedFrom: number | null
}

type Written = SessionKey & {
  readonly seq: number
  readonly draft: MessageDraft
  readonly turn?: string
  /** The last seq that it answers. */
  readonly answers?: number
  readonly status?: ItemStatus
  readonly replaces?: readonly SeqRange[]
}
/** The fields after `agent`: of a turn that a rewrite has started. */
export type Started = SessionKey &
  TurnStart & {
    readonly agent: string
    readonly readTo?: number
    readonly replaces?: readonly SeqRange[]
    readonly cause?: string
  }
/** A compaction that starts: it covers the messages up to `through`. */
export type StartedCompaction = SessionKey & {
  readonly compaction: string
  readonly agent: string
  readonly through: number
  readonly size: ContextSize
}
/** `pod` is the pod whose claim ends with the turn. */
export type Closed = SessionKey & {
  readonly turn: string
  /** 0: no attempt ended it. */
  readonly attempt: number
  readonly readTo: number
  readonly used: readonly AttemptUsage[]
} & (
    | { readonly outcome: 'done'; readonly pod: number }
    | { readonly outcome: 'failed'; readonly pod: number | null; readonly error: TurnError }
    | { readonly outcome: 'stopped'; readonly pod: number | null; readonly error?: TurnError }
  )

/** A cursor that moves. A user who is no member has none. */
export type CursorMove = SessionKey & ReadCursor & { readonly user: string }

export type Unsummarised = SessionKey & { readonly from: number }

export type Placed = {
  /** One for each item, in order. HELD: it goes into the next batch. */
  readonly results: readonly (Result | typeof HELD)[]
  /** The new state of each session that changed. */
  readonly changed: readonly SessionState[]
  readonly written: readonly Written[]
  readonly started: readonly Started[]
  readonly closed: readonly Closed[]
  readonly cursors: readonly CursorMove[]
  readonly startedCompactions: readonly StartedCompaction[]
  readonly endedCompactions: readonly CompactionEnd[]
  /** Sessions whose summaries from this seq on quote messages that have left the conversation, or that are answered anew. */
  readonly unsummarised: readonly Unsummarised[]
  /** Sessions that were archived, and are not any more. */
  readonly unarchived: readonly SessionKey[]
}

export type BatchFindings = {
  /** By `nameOf`: the sessions that exist. */
  readonly sessions: ReadonlyMap<string, SessionState>
  /** By the item's index in the batch: what is stored under the id of its message, or of the stopped turn's reply. */
  readonly stored: ReadonlyMap<number, StoredMessage>
  /** By the index of an end, a stop, an expiry or a rewrite: its turn, or the live one. */
  readonly turns: ReadonlyMap<number, TurnRow>
  /** By the index of a stop or an expiry whose turn is live, or of a rewrite while one is. */
  readonly open: ReadonlyMap<number, Open>
  /** The indexes of ends that may be written. */
  readonly held: ReadonlySet<number>
  /** By the index of a read: the cursor of its member. */
  readonly cursors: ReadonlyMap<number, ReadCursor>
  /** By the index of a rewrite. */
  readonly rewrites: ReadonlyMap<number, RewriteFindings>
}

/** The end of a turn whose session was erased. */
export const SESSION_ERASED: TurnError = { code: 'gone', message: 'The session was erased' }

export function nameOf({ tenant, session }: SessionKey): string {
  return `${tenant}/${session}`
}

/** A reply has the id of its turn. While the turn is live, no other message may take that id. */
export function isReplyOf(turn: string, { id }: MessageDraft): boolean {
  return parseId('message', id)?.uuid === turn
}
