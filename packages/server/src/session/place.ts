// Which seq each message of a batch takes, and what its conversation does then, item by item, in their order. Pure:
// append.ts reads what it needs under the sessions' locks, and writes what it answers.
//
//   a message whose
//   session       id                              ifHead            becomes
//   is not there                                                    not-found
//   is there      is stored, same content         (not looked at)   stored at its seq, deduped
//   is there      is stored, other content                          conflict
//   is there      is that of the reply on its way                   conflict
//   is there      is new                          is not the head   stale
//   is there      is new                          is the head, or   stored at head + 1, and the head moves
//                                                 was not given
//
//   the end of a turn that                                          becomes
//   this attempt has ended before                                   ended
//   another claim holds by now, or is not the live one (E1)         fenced
//   is done, and has read nothing                                   fenced: nobody knows what it answers
//   is held and live                                                ended: its message at head + 1, and the next step
// "Stored", "head" and "live" take in what stands before it in the batch. A refused item changes nothing for the others
// (L11). What a conversation does: conversation/step.ts.
import { parseId } from '@fleetline/protocol'
import { step, type Conversation, type ConversationEvent, type TurnStart } from '../conversation/step.ts'
import type { Draft } from './draft.ts'

export type SessionKey = { readonly tenant: number; readonly session: string }

export type Append = SessionKey & {
  readonly draft: Draft
  /** Append only if the head is this. */
  readonly ifHead?: number
  /** It wants a reply: in a session that has an agent, a turn answers it. */
  readonly asks?: boolean
}

export type LiveTurn = { readonly turn: string; readonly epoch: number }

/** `live`: while it waits for a reply, the turn that is live. That one answers it, or the next (E4). */
export type Appended =
  | { readonly type: 'stored'; readonly seq: number; readonly deduped: boolean; readonly live?: LiveTurn }
  | { readonly type: 'not-found' }
  /** Without a seq: the reply that has this id is not in the log yet. */
  | { readonly type: 'conflict'; readonly seq: number | undefined }
  | { readonly type: 'stale'; readonly head: number }

/** The end of a turn by the attempt that ran it, under both its fences: that of the conversation and that of its task. */
export type TurnEnd = SessionKey & {
  readonly turn: string
  readonly epoch: number
  readonly attempt: number
  readonly pod: number
} & (
    | { readonly outcome: 'done'; /** Nothing: it had nothing to say. */ readonly draft: Draft | undefined }
    | { readonly outcome: 'failed'; readonly error: TurnError }
  )
export type TurnError = { readonly code: string; readonly message: string }
export type TurnEnded = { readonly type: 'ended' } | { readonly type: 'fenced' }

export type Item = ({ readonly type: 'message' } & Append) | ({ readonly type: 'end' } & TurnEnd)

export type SessionState = SessionKey &
  Conversation & { readonly head: number; readonly agent: string | null }
export type Stored = { readonly seq: number; readonly digest: string }
/** Of a turn: up to where it has read, and which attempt ended it. */
export type TurnRow = { readonly readTo: number | null; readonly endedBy: number | null }

export type Written = SessionKey & {
  readonly seq: number
  readonly draft: Draft
  readonly turn?: string
  /** The last seq that it answers. */
  readonly answers?: number
}
export type Started = SessionKey & TurnStart & { readonly agent: string }
export type Closed = { readonly end: TurnEnd; readonly readTo: number }

export type Placed = {
  /** One for each item, in their order. */
  readonly results: readonly (Appended | TurnEnded)[]
  /** The sessions that changed, as they are now. */
  readonly changed: readonly SessionState[]
  readonly written: readonly Written[]
  readonly started: readonly Started[]
  readonly closed: readonly Closed[]
}

export type Found = {
  /** By nameOf: those that are there. */
  readonly sessions: ReadonlyMap<string, SessionState>
  /** By the item's place in the batch: what is stored under its message's id. */
  readonly stored: ReadonlyMap<number, Stored>
  /** By the place of an end: its turn. */
  readonly turns: ReadonlyMap<number, TurnRow>
  /** The places of ends whose attempt has its claim. */
  readonly held: ReadonlySet<number>
}

export function nameOf({ tenant, session }: SessionKey): string {
  return `${tenant}/${session}`
}

/** `newTurn` makes the id of a turn that starts. */
export function place(items: readonly Item[], found: Found, newTurn: () => string): Placed {
  const batch = createBatch(found, newTurn)
  const results = items.map((item, index) =>
    item.type === 'message' ? placeMessage(batch, item, index) : placeEnd(batch, item, index),
  )
  const { written, started, closed } = batch
  return { results, changed: [...batch.changed.values()], written, started, closed }
}

type Batch = ReturnType<typeof createBatch>

function createBatch(found: Found, newTurn: () => string) {
  const changed = new Map<string, SessionState>()
  const inBatch = new Map<string, Stored>()
  const written: Written[] = []
  const started: Started[] = []
  const closed: Closed[] = []
  const nameIn = (key: SessionKey, draft: Draft) => `${nameOf(key)}/${draft.key}`
  return {
    found,
    changed,
    written,
    started,
    closed,
    session: (key: SessionKey) => changed.get(nameOf(key)) ?? found.sessions.get(nameOf(key)),
    storedAs: (key: SessionKey, draft: Draft, index: number) =>
      found.stored.get(index) ?? inBatch.get(nameIn(key, draft)),
    /** At the next seq: the session with its new head. */
    write: (state: SessionState, message: Pick<Written, 'draft' | 'turn' | 'answers'>): SessionState => {
      const { tenant, session, head } = state
      const seq = head + 1
      written.push({ tenant, session, seq, ...message })
      inBatch.set(nameIn(state, message.draft), { seq, digest: message.draft.digest })
      return { ...state, head: seq }
    },
    /** The session after what its conversation makes of the event; undefined: nothing, it is fenced. */
    step: (state: SessionState, event: WithoutId<ConversationEvent>): SessionState | undefined => {
      const stepped = step(state, { ...event, newTurn: newTurn() })
      if (stepped.type === 'fenced') return undefined
      const { tenant, session, agent } = state
      if (stepped.starts) started.push({ tenant, session, agent: agent!, ...stepped.starts })
      return { ...state, ...stepped.state }
    },
    hasClosed: ({ turn, attempt }: TurnEnd) =>
      closed.some(({ end }) => end.turn === turn && end.attempt === attempt),
    put: (state: SessionState) => void changed.set(nameOf(state), state),
  }
}
type WithoutId<Event> = Event extends unknown ? Omit<Event, 'newTurn'> : never

function placeMessage(batch: Batch, item: Append, index: number): Appended {
  const { draft, ifHead, asks = false } = item
  const state = batch.session(item)
  if (!state) return { type: 'not-found' }
  const before = batch.storedAs(item, draft, index)
  if (before && before.digest !== draft.digest) return { type: 'conflict', seq: before.seq }
  if (before) return { type: 'stored', seq: before.seq, deduped: true, ...liveFor(before.seq, state) }
  if (state.turn !== null && isReplyOf(state.turn, draft)) return { type: 'conflict', seq: undefined }
  if (ifHead !== undefined && ifHead !== state.head) return { type: 'stale', head: state.head }
  const grown = batch.write(state, { draft })
  const wakes = asks && grown.agent !== null
  const stepped = wakes ? batch.step(grown, { type: 'asked', seq: grown.head })! : grown
  batch.put(stepped)
  return { type: 'stored', seq: grown.head, deduped: false, ...liveFor(grown.head, stepped) }
}

function placeEnd(batch: Batch, end: TurnEnd, index: number): TurnEnded {
  const { turn, epoch } = end
  const state = batch.session(end)
  const row = batch.found.turns.get(index)
  if (row?.endedBy === end.attempt || batch.hasClosed(end)) return { type: 'ended' }
  if (!state || !row || !batch.found.held.has(index)) return { type: 'fenced' }
  if (end.outcome === 'done' && row.readTo === null) return { type: 'fenced' }
  const readTo = row.readTo ?? state.head // it failed before it read: the failure is of all that was there
  const stepped = batch.step(state, { type: 'ended', turn, epoch, readTo })
  if (!stepped) return { type: 'fenced' }
  const draft = end.outcome === 'done' ? end.draft : undefined
  batch.put(draft ? batch.write(stepped, { draft, turn, answers: readTo }) : stepped)
  batch.closed.push({ end, readTo })
  return { type: 'ended' }
}

function liveFor(seq: number, { turn, epoch, asked, answered }: Conversation): { readonly live?: LiveTurn } {
  return turn !== null && answered < seq && seq <= asked ? { live: { turn, epoch } } : {}
}

/** A reply has the id of its turn. While that is live, nobody else may take it. */
export function isReplyOf(turn: string, { id }: Draft): boolean {
  return parseId('message', id)?.uuid === turn
}
