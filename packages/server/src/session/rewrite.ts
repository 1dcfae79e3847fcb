// Decides what becomes of a reply that is written anew and of a user's message that is edited. The messages that leave the conversation stay
// in the log. Pure. Guarantees:
//   E10  a repeat of the command gets the answer of the first one; of two commands at the same epoch, one is taken; no message that was
//        appended after the command leaves the conversation
//
//   the target                        leaves the conversation                        the turn reads
//   a reply                           it, and all that is stored behind it           up to the message before it
//   a user's message, for a new       all that is stored behind it, except replies   up to it, and those replies
//   reply                             to earlier messages
//   a user's message, to be edited    the same, and the message                      up to the new message
//   the reply of the live turn        nothing yet                                    what that turn reads
// The live turn is stopped, and what it has said is dropped. The messages of the first two rows leave the conversation when the new reply has
// said something; those of the third at once.
import type { SeqRange } from '@fleetline/protocol'
import { MOST_SENT } from '../conversation/budget.ts'
import { HELD } from '../lib/batcher.ts'
import {
  isReplyOf,
  nameOf,
  type Rewrite,
  type RewriteFindings,
  type RewriteTarget,
  type Rewritten,
  type SessionState,
  type StoredMessage,
  type TurnRow,
} from './items.ts'
import type { PlacingBatch } from './placing-batch.ts'

/** Each range is in the row of the session, which every message writes anew. */
const MOST_RANGES = 1_000

/** HELD: an item before it has changed the session, so it is looked up again, for the next batch. */
export function placeRewrite(batch: PlacingBatch, item: Rewrite, index: number): Rewritten | typeof HELD {
  if (batch.changed.has(nameOf(item))) return HELD
  const state = batch.session(item)
  if (!state) return { type: 'not-found' }
  if (state.isErased) return { type: 'gone', seq: undefined }
  const found = batch.found.rewrites.get(index)!
  const stored = batch.storedAs(item, item.draft, index)
  if (found.repeat) return repeatOf(item, found.repeat, stored) ?? staleIn(state)
  const isClosable = state.turn === null || batch.found.open.has(index)
  const isMoved = state.epoch !== item.epoch || (item.ifHead !== undefined && item.ifHead !== state.head)
  if (isMoved || state.compacting !== null || !isClosable) return staleIn(state)
  if (stored) return { type: 'conflict', seq: stored.seq }
  if (item.draft && state.turn !== null && isReplyOf(state.turn, item.draft))
    return { type: 'conflict', seq: undefined }
  if (found.ranges >= MOST_RANGES) return { type: 'unfit', why: 'too-many' }
  const row = batch.found.turns.get(index)
  const placed = found.isOpen
    ? placeOpen(batch, item, state, row!)
    : placeOn(batch, item, state, found.target)
  if (placed.type === 'rewritten') closeLive(batch, state, index)
  return placed
}

/** Undefined: it is another edit, which came too late. An erased message has no digest any more. */
function repeatOf(
  { draft }: Rewrite,
  repeat: NonNullable<RewriteFindings['repeat']>,
  stored: StoredMessage | undefined,
): Rewritten | undefined {
  if (draft && stored?.isErased) return { type: 'gone', seq: stored.seq }
  if (draft && stored?.digest !== draft.digest) return undefined
  return { type: 'rewritten', ...repeat, isRepeat: true }
}

function staleIn({ head, epoch, turn, compacting }: SessionState): Rewritten {
  return { type: 'stale', head, epoch, turn, isCompacting: compacting !== null }
}

/** The reply of the live turn begins again. */
function placeOpen(batch: PlacingBatch, item: Rewrite, state: SessionState, row: TurnRow): Rewritten {
  if (item.draft) return { type: 'unfit', why: 'role' }
  const { readFrom, askedFrom, readTo, replaces } = row
  const event = { type: 'rewritten', epoch: item.epoch, readFrom, askedFrom: askedFrom ?? readFrom } as const
  const read = readTo === null ? {} : { readTo }
  return begin(batch, item, state, { event, start: { ...read, replaces: replaces ?? [] } })
}

function placeOn(
  batch: PlacingBatch,
  item: Rewrite,
  state: SessionState,
  target: RewriteTarget | undefined,
): Rewritten {
  const { draft, onlyOf } = item
  if (state.agent === null && (target || item.target === null)) return { type: 'unfit', why: 'no-agent' }
  if (!target) return { type: 'no-message' }
  if (target.isErased) return { type: 'gone', seq: target.seq }
  if (target.isReplaced) return staleIn(state)
  if (target.role === 'system' || (draft && target.role !== 'user')) return { type: 'unfit', why: 'role' }
  if (draft && onlyOf !== undefined && onlyOf !== target.author) return { type: 'unfit', why: 'author' }
  const { replaces, readTo } = leaving(item, state, target)
  if (draft) return edit(batch, { ...item, draft }, state, replaces)
  if (target.askedFrom === null) return { type: 'unfit', why: 'unasked' }
  const isAsked = state.asked > state.answered
  const waiting = isAsked ? Math.min(target.askedFrom, state.answered + 1) : target.askedFrom
  const askedFrom = Math.max(waiting, Math.min(target.askedFrom, readTo - MOST_SENT.messages + 1)) // a call carries no more
  const event = {
    type: 'rewritten',
    epoch: item.epoch,
    answered: state.head,
    readFrom: askedFrom,
    askedFrom,
  } as const
  const from = Math.min(askedFrom, replaces[0]?.[0] ?? askedFrom)
  return begin(batch, item, forget(batch, state, from), { event, start: { readTo, replaces } })
}

/** What leaves the conversation, and the last seq that stays. */
function leaving({ draft }: Rewrite, { head }: SessionState, { role, seq, kept }: RewriteTarget) {
  const from = role === 'user' && !draft ? seq + 1 : seq
  return { replaces: without(from, head, kept), readTo: Math.max(from - 1, ...kept) }
}

/** The ranges of `from` to `to`, without the seqs in `kept`, which are in ascending order. */
export function without(from: number, to: number, kept: readonly number[]): SeqRange[] {
  const ends = [from - 1, ...kept, to + 1]
  return ends.slice(1).flatMap((end, place): SeqRange[] => {
    const begin = ends[place]! + 1
    return begin < end ? [[begin, end - 1]] : []
  })
}

/** A summary that quotes what leaves the conversation, or what is to be answered, is forgotten. */
function forget(batch: PlacingBatch, state: SessionState, from: number): SessionState {
  if (from > state.summarised) return state
  batch.unsummarised.set(nameOf(state), { tenant: state.tenant, session: state.session, from })
  return { ...state, summarised: 0, nextTrySeq: 0, version: state.version + 1 }
}

function edit(
  batch: PlacingBatch,
  item: Rewrite & Required<Pick<Rewrite, 'draft'>>,
  state: SessionState,
  replaces: readonly SeqRange[],
): Rewritten {
  const { draft, epoch } = item
  const known = forget(batch, state, replaces[0]![0]) // the message itself leaves the conversation
  const written = batch.write({ ...known, isArchived: false }, { draft, replaces })
  const { head: seq } = written
  const begun = begin(batch, item, written, { event: { type: 'rewritten', epoch, asked: seq }, seq })
  const { kind, id: user } = draft.author
  if (begun.type === 'rewritten' && kind === 'user' && user !== undefined)
    batch.moveCursor(item, user, { read: seq, seenEpoch: begun.turn.epoch - 1 })
  return begun
}

type Beginning = {
  readonly event: Extract<Parameters<PlacingBatch['step']>[1], { readonly type: 'rewritten' }>
  readonly start?: Parameters<PlacingBatch['step']>[2]
  /** Of the new message. */
  readonly seq?: number | null
}

function begin(
  batch: PlacingBatch,
  { cause }: Rewrite,
  state: SessionState,
  { event, start, seq = null }: Beginning,
): Rewritten {
  const stepped = batch.step(state, event, { ...start, cause })
  if (!stepped) return staleIn(state)
  batch.put({ ...stepped, failedEpoch: state.turn === null ? state.failedEpoch : null })
  return { type: 'rewritten', seq, turn: { turn: stepped.turn!, epoch: stepped.epoch }, isRepeat: false }
}

/** Ends the turn that was live. What it has said is dropped. */
function closeLive(batch: PlacingBatch, { tenant, session, turn, head }: SessionState, index: number): void {
  if (turn === null) return
  const { attempt, pod, used } = batch.found.open.get(index)!
  const { readTo } = batch.found.turns.get(index)!
  batch.closed.push({ tenant, session, turn, attempt, pod, readTo: readTo ?? head, used, outcome: 'stopped' })
}
