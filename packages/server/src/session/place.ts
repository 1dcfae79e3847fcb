// Decides which seq each message of a batch takes and what its conversation does next, item by item, in order. Pure:
// append.ts reads the input under the sessions' locks and writes the result.
//
//   a message whose
//   session       id                              ifHead            becomes
//   is not found                                                    not-found
//   was erased                                                      gone
//   exists        is stored, and was erased       (ignored)         gone
//   exists        is stored, same content         (ignored)         stored at its seq, deduped
//   exists        is stored, other content                          conflict
//   exists        belongs to the reply of the                       conflict
//                 live turn
//   exists        is new                          is not the head   stale
//   exists        is new                          is the head, or   stored at head + 1, and the head moves; an
//                                                 was not given     archived session is un-archived
//
//   the end of a turn that                                          becomes
//   this attempt has ended before                                   ended
//   another attempt has claimed, or that is not live (E1)           fenced
//   is done, and has read nothing                                   fenced: nobody knows what it answers
//   this attempt has claimed, and that is live                      ended: its message, or what it said before it failed, is
//                                                                   stored at head + 1; then the next step
//   the same, in an erased session                                  ended as failed (`gone`): without a message or a next step
//
//   the stop of a turn that                                         becomes
//   was stopped before, in this epoch                               stopped, with the seq of what it said
//   is not live, or is of another epoch                             stale
//   is live, even if a pod runs it                                  stopped: what it has said is stored at head + 1; in an
//                                                                   erased session (`gone`), nothing is stored
//
//   the end of a compaction that                                    becomes
//   is under way, and whose attempt has its claim, or that is       ended: with a summary, or without one if it failed; then
//   past its time limit and that no pod has                         the next step, which may be another compaction
//   is under way, but a message or the session was erased since     ended without a summary
//   the agent read it
//   any other                                                       fenced
//
//   the expiry of a turn, past its time limit, that                 becomes
//   is live and that no pod has                                     ended as failed; then the next step
//   any other                                                       fenced: the pod that has it ends it
//
//   a member has read up to a seq, and                              becomes
//   the session is not found, or the user is no member              not-found
//   its cursor is there already                                     read: the cursor stays
//   anything else                                                   read: its cursor moves, at most to the head
//   reads at the head                                               also: the ends of all turns until now count as seen
//   it has sent a message itself                                    the same, up to that message
// "Stored", "head" and "live" include the earlier items of the batch. A rejected item changes nothing for the others (L11).
// conversation/step.ts decides the next step of a conversation.
import { parseId, type ItemStatus } from '@fleetline/protocol'
import { isOverBudget, nextTryFrom, type ContextSize } from '../conversation/budget.ts'
import {
  endedEpoch,
  step,
  type Conversation,
  type ConversationEvent,
  type LiveTurn,
  type TurnStart,
} from '../conversation/step.ts'
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
  | ({ readonly type: 'expire' } & Expiry)
  | ({ readonly type: 'read' } & MarkRead)
  | ({ readonly type: 'compacted' } & CompactionEnd)
export type Result = Appended | TurnEnded | Stopped | MarkedRead

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
  }
/** How far a member has read, and the last epoch whose end it has seen. */
export type ReadCursor = { readonly read: number; readonly seenEpoch: number }
export type StoredMessage = { readonly seq: number; readonly digest: string; readonly isErased: boolean }
/** A turn: how far it has read, which attempt ended it or was stopped, and how. */
export type TurnRow = Pick<SessionKey, 'session'> & {
  readonly epoch: number
  readonly agent: string
  readonly readTo: number | null
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

type Written = SessionKey & {
  readonly seq: number
  readonly draft: MessageDraft
  readonly turn?: string
  /** The last seq that it answers. */
  readonly answers?: number
  readonly status?: ItemStatus
}
export type Started = SessionKey & TurnStart & { readonly agent: string }
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

export type Placed = {
  /** One for each item, in order. */
  readonly results: readonly Result[]
  /** The new state of each session that changed. */
  readonly changed: readonly SessionState[]
  readonly written: readonly Written[]
  readonly started: readonly Started[]
  readonly closed: readonly Closed[]
  readonly cursors: readonly CursorMove[]
  readonly startedCompactions: readonly StartedCompaction[]
  readonly endedCompactions: readonly CompactionEnd[]
  /** Sessions that were archived, and are not any more. */
  readonly unarchived: readonly SessionKey[]
}

export type BatchFindings = {
  /** By `nameOf`: the sessions that exist. */
  readonly sessions: ReadonlyMap<string, SessionState>
  /** By the item's index in the batch: what is stored under the id of its message, or of the stopped turn's reply. */
  readonly stored: ReadonlyMap<number, StoredMessage>
  /** By the index of an end, a stop or an expiry: its turn. */
  readonly turns: ReadonlyMap<number, TurnRow>
  /** By the index of a stop or an expiry whose turn is live. */
  readonly open: ReadonlyMap<number, Open>
  /** The indexes of ends that may be written. */
  readonly held: ReadonlySet<number>
  /** By the index of a read: the cursor of its member. */
  readonly cursors: ReadonlyMap<number, ReadCursor>
}

/** The end of a turn whose session was erased. */
export const SESSION_ERASED: TurnError = { code: 'gone', message: 'The session was erased' }

export function nameOf({ tenant, session }: SessionKey): string {
  return `${tenant}/${session}`
}

/** `newId` makes the id of a turn or a compaction that starts. */
export function place(items: readonly Item[], found: BatchFindings, newId: () => string): Placed {
  const batch = createBatch(found, newId)
  const results = items.map((item, index) => {
    switch (item.type) {
      case 'message':
        return placeMessage(batch, item, index)
      case 'end':
        return placeEnd(batch, item, index)
      case 'stop':
        return placeStop(batch, item, index)
      case 'expire':
        return placeExpiry(batch, item, index)
      case 'read':
        return placeRead(batch, item, index)
      case 'compacted':
        return placeCompaction(batch, item, index)
    }
  })
  const { written, started, closed, startedCompactions, endedCompactions } = batch
  const [changed, cursors] = [[...batch.changed.values()], [...batch.cursors.values()]]
  const unarchived = changed.filter(
    (state) => !state.isArchived && found.sessions.get(nameOf(state))?.isArchived,
  )
  return {
    results,
    changed,
    written,
    started,
    closed,
    cursors,
    startedCompactions,
    endedCompactions,
    unarchived,
  }
}

type PlacingBatch = ReturnType<typeof createBatch>

function createBatch(found: BatchFindings, newId: () => string) {
  const changed = new Map<string, SessionState>()
  const inBatch = new Map<string, StoredMessage>()
  const written: Written[] = []
  const started: Started[] = []
  const closed: Closed[] = []
  const cursors = new Map<string, CursorMove>()
  const startedCompactions: StartedCompaction[] = []
  const endedCompactions: CompactionEnd[] = []
  const nameIn = (key: SessionKey, draft: Pick<MessageDraft, 'key'>) => `${nameOf(key)}/${draft.key}`
  return {
    found,
    changed,
    written,
    started,
    closed,
    cursors,
    startedCompactions,
    endedCompactions,
    session: (key: SessionKey) => changed.get(nameOf(key)) ?? found.sessions.get(nameOf(key)),
    storedAs: (key: SessionKey, draft: MessageDraft | undefined, index: number) =>
      found.stored.get(index) ?? (draft && inBatch.get(nameIn(key, draft))),
    /** Writes at the next seq; returns the session with its new head. */
    write: (state: SessionState, message: Omit<Written, keyof SessionKey | 'seq'>): SessionState => {
      const { tenant, session, head } = state
      const seq = head + 1
      written.push({ tenant, session, seq, ...message })
      inBatch.set(nameIn(state, message.draft), { seq, digest: message.draft.digest, isErased: false })
      return { ...state, head: seq, ...(message.draft.role === 'assistant' && { replied: seq }) }
    },
    /** Undefined: the user is no member. */
    cursorOf: ({ user, ...key }: MarkRead, index: number): ReadCursor | undefined => {
      const stored = found.cursors.get(index)
      return stored && (cursors.get(`${nameOf(key)}/${user}`) ?? stored)
    },
    moveCursor: ({ tenant, session }: SessionKey, user: string, to: ReadCursor) =>
      void cursors.set(`${nameOf({ tenant, session })}/${user}`, { tenant, session, user, ...to }),
    /** Returns the session after the event. Undefined: the event is fenced and changes nothing. */
    step: (state: SessionState, event: WithoutId<ConversationEvent>): SessionState | undefined => {
      const stepped = step(state, { ...event, newId: newId() })
      if (stepped.type === 'fenced') return undefined
      const { tenant, session, agent } = state
      if (stepped.starts) started.push({ tenant, session, agent: agent!, ...stepped.starts })
      return { ...state, ...stepped.state }
    },
    /** How the turn of the item at this index ended, and which attempt ended it. */
    endOf: ({ turn }: LiveTurn, index: number): Pick<Closed, 'attempt' | 'outcome'> | undefined => {
      const row = found.turns.get(index)
      const before = row?.outcome ? { attempt: row.endedBy ?? 0, outcome: row.outcome } : undefined
      return before ?? closed.find((one) => one.turn === turn)
    },
    /** If the step from `before` to `after` has started one. */
    startCompaction: (before: SessionState, after: SessionState, size: ContextSize | undefined) => {
      const { tenant, session, compacting: compaction, agent, head: through } = after
      if (compaction === null || compaction === before.compacting || agent === null || !size) return
      startedCompactions.push({ tenant, session, compaction, agent, through, size })
    },
    put: (state: SessionState) => void changed.set(nameOf(state), state),
  }
}
type WithoutId<Event> = Event extends unknown ? Omit<Event, 'newId'> : never

function placeMessage(batch: PlacingBatch, item: Append, index: number): Appended {
  const { draft, ifHead, asks = false } = item
  const state = batch.session(item)
  if (!state) return { type: 'not-found' }
  if (state.isErased) return { type: 'gone', seq: undefined }
  const before = batch.storedAs(item, draft, index)
  if (before?.isErased) return { type: 'gone', seq: before.seq }
  if (before && before.digest !== draft.digest) return { type: 'conflict', seq: before.seq }
  if (before) return { type: 'stored', seq: before.seq, deduped: true, ...waitingFor(before.seq, state) }
  if (state.turn !== null && isReplyOf(state.turn, draft)) return { type: 'conflict', seq: undefined }
  if (ifHead !== undefined && ifHead !== state.head) return { type: 'stale', head: state.head }
  const grown = batch.write({ ...state, isArchived: false }, { draft })
  const wakes = asks && grown.agent !== null
  const stepped = wakes ? batch.step(grown, { type: 'asked', seq: grown.head })! : grown
  batch.put(stepped)
  const { kind, id: user } = draft.author
  if (kind === 'user' && user !== undefined)
    batch.moveCursor(item, user, { read: grown.head, seenEpoch: endedEpoch(stepped) })
  return { type: 'stored', seq: grown.head, deduped: false, ...waitingFor(grown.head, stepped) }
}

function placeEnd(batch: PlacingBatch, end: TurnEnd, index: number): TurnEnded {
  const { turn, epoch } = end
  const state = batch.session(end)
  const row = batch.found.turns.get(index)
  const before = batch.endOf(end, index)
  if (before && before.outcome !== 'stopped' && before.attempt === end.attempt) return { type: 'ended' }
  if (!state || !row || !batch.found.held.has(index)) return { type: 'fenced' }
  if (end.outcome === 'done' && row.readTo === null) return { type: 'fenced' }
  const readTo = row.readTo ?? state.head // it failed before it read: the failure counts for all messages up to the head
  if (state.isErased) return endTurnOfErased(batch, end, state, readTo)
  const size = end.outcome === 'done' ? end.size : undefined
  const isLong = size !== undefined && state.head >= state.nextTrySeq && isOverBudget(size)
  const stepped = batch.step(state, { type: 'ended', turn, epoch, readTo, isLong })
  if (!stepped) return { type: 'fenced' }
  const failed = end.outcome === 'failed' ? ({ status: 'failed' } as const) : {}
  const ended = { ...stepped, failedEpoch: end.outcome === 'failed' ? epoch : null }
  const { draft } = end
  const written = draft ? batch.write(ended, { draft, turn, answers: readTo, ...failed }) : ended
  batch.put(written)
  const { tenant, session, attempt, pod } = end
  batch.startCompaction(state, written, size)
  const used = end.used ? [end.used] : []
  const closed = { tenant, session, turn, attempt, pod, readTo, used }
  batch.closed.push(
    end.outcome === 'done'
      ? { ...closed, outcome: 'done' }
      : { ...closed, outcome: 'failed', error: errorAfter(end, state) },
  )
  return { type: 'ended' }
}

/** An error may quote a message that was erased since the agent got it. */
function errorAfter(
  { error, eraseCount }: Extract<TurnEnd, { readonly outcome: 'failed' }>,
  state: SessionState,
): TurnError {
  const isQuoting = eraseCount !== undefined && eraseCount !== state.eraseCount
  return isQuoting ? { code: error.code, message: 'Erased' } : error
}

/** Ends the turn like a stop, so that no next turn starts. */
function endTurnOfErased(batch: PlacingBatch, end: TurnEnd, state: SessionState, readTo: number): TurnEnded {
  const { tenant, session, turn, epoch, attempt, pod, used } = end
  const stepped = batch.step(state, { type: 'stopped', turn, epoch, head: state.head })
  if (!stepped) return { type: 'fenced' }
  batch.put(stepped)
  const closed = { tenant, session, turn, attempt, pod, readTo, used: used ? [used] : [] }
  batch.closed.push({ ...closed, outcome: 'failed', error: SESSION_ERASED })
  return { type: 'ended' }
}

function placeStop(batch: PlacingBatch, stop: Stop, index: number): Stopped {
  const { tenant, session, turn, epoch } = stop
  const state = batch.session(stop)
  if (!state || (state.isErased && state.turn !== turn)) return { type: 'not-found' }
  const [row, open] = [batch.found.turns.get(index), batch.found.open.get(index)]
  if (row?.session !== session || row.epoch !== epoch) return { type: 'stale' }
  if (batch.endOf(stop, index)?.outcome === 'stopped') {
    const said = batch.storedAs(stop, open?.said, index)
    return { type: 'stopped', seq: said?.seq ?? null, isRepeat: true }
  }
  const isLive = state.turn === turn // includes earlier items of the batch
  const stepped =
    open && isLive ? batch.step(state, { type: 'stopped', turn, epoch, head: state.head }) : undefined
  if (!open || !stepped) return { type: 'stale' }
  const { attempt, pod, used } = open
  const draft = state.isErased ? undefined : open.said
  const answers = row.readTo ?? state.head
  const ended = { ...stepped, failedEpoch: null }
  const stopped = draft ? batch.write(ended, { draft, turn, answers, status: 'stopped' }) : ended
  batch.put(stopped)
  const error = state.isErased ? { error: SESSION_ERASED } : {}
  const closed = { tenant, session, turn, attempt, pod, readTo: state.head, used, ...error }
  batch.closed.push({ ...closed, outcome: 'stopped' })
  return { type: 'stopped', seq: draft ? stopped.head : null, isRepeat: false }
}

function placeExpiry(batch: PlacingBatch, expiry: Expiry, index: number): TurnEnded {
  const { tenant, session, turn, epoch, error } = expiry
  const [state, row, open] = [
    batch.session(expiry),
    batch.found.turns.get(index),
    batch.found.open.get(index),
  ]
  const isLive = state?.turn === turn // includes earlier items of the batch
  if (!state || !row || !isLive || open?.pod !== null) return { type: 'fenced' }
  const readTo = row.readTo ?? state.head
  const stepped = batch.step(
    state,
    state.isErased
      ? { type: 'stopped', turn, epoch, head: state.head }
      : { type: 'ended', turn, epoch, readTo },
  )
  if (!stepped) return { type: 'fenced' }
  batch.put({ ...stepped, failedEpoch: epoch })
  const closed = { tenant, session, turn, attempt: 0, pod: null, readTo, used: open.used }
  batch.closed.push({ ...closed, outcome: 'failed', error })
  return { type: 'ended' }
}

function placeCompaction(batch: PlacingBatch, given: CompactionEnd, index: number): TurnEnded {
  const state = batch.session(given)
  if (!state || !batch.found.held.has(index)) return { type: 'fenced' }
  const end = failIfErased(given, state)
  const more = end.outcome === 'done' ? end.more : undefined
  const { compaction } = end
  const stepped = batch.step(state, { type: 'compacted', compaction, isPartial: more !== undefined })
  if (!stepped) return { type: 'fenced' }
  const done =
    end.outcome === 'done' ? { summarised: end.upto, nextTrySeq: 0 } : { nextTrySeq: nextTryFrom(state.head) }
  const ended = { ...stepped, ...done, version: stepped.version + 1 }
  batch.put(ended)
  batch.endedCompactions.push(end)
  batch.startCompaction(state, ended, more)
  return { type: 'ended' }
}

/** A summary may say what the erased messages said. */
function failIfErased(end: CompactionEnd, { isErased, eraseCount }: SessionState): CompactionEnd {
  if (end.outcome === 'failed' || (!isErased && end.eraseCount === eraseCount)) return end
  const { tenant, session, compaction, attempt, pod } = end
  return { tenant, session, compaction, attempt, pod, outcome: 'failed', code: SESSION_ERASED.code }
}

function placeRead(batch: PlacingBatch, item: MarkRead, index: number): MarkedRead {
  const state = batch.session(item)
  const before = batch.cursorOf(item, index)
  if (!state || !before) return { type: 'not-found' }
  const { head } = state
  const read = Math.max(before.read, Math.min(item.seq, head))
  const seenEpoch = item.seq >= head ? Math.max(before.seenEpoch, endedEpoch(state)) : before.seenEpoch
  if (read > before.read || seenEpoch > before.seenEpoch)
    batch.moveCursor(item, item.user, { read, seenEpoch })
  return { type: 'read', read, unread: Math.max(0, head - read) }
}

function waitingFor(seq: number, { turn, epoch, compacting, asked, answered }: Conversation): Waiting {
  if (seq <= answered || seq > asked) return {}
  if (turn !== null) return { live: { turn, epoch } }
  return compacting === null ? {} : { nextEpoch: epoch + 1 }
}

/** A reply has the id of its turn. While the turn is live, no other message may take that id. */
export function isReplyOf(turn: string, { id }: MessageDraft): boolean {
  return parseId('message', id)?.uuid === turn
}
