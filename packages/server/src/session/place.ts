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
//   a rewrite, that is a reply to be written anew, or an edit      becomes
//   of a message, that
//   was taken before                                                rewritten: the same turn and the same seq
//   names another epoch, a message that has left the conversation,  stale
//   or comes while the conversation is summarised
//   is an edit whose id is taken                                    conflict
//   anything else                                                   rewritten, see rewrite.ts
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
import { isOverBudget, nextTryFrom } from '../conversation/budget.ts'
import { endedEpoch, type Conversation } from '../conversation/step.ts'
import {
  isReplyOf,
  nameOf,
  SESSION_ERASED,
  type Append,
  type Appended,
  type BatchFindings,
  type CompactionEnd,
  type Expiry,
  type Item,
  type MarkedRead,
  type MarkRead,
  type Placed,
  type SessionState,
  type Stop,
  type Stopped,
  type TurnEnd,
  type TurnEnded,
  type TurnError,
} from './items.ts'
import { createBatch, type PlacingBatch } from './placing-batch.ts'
import { placeRewrite } from './rewrite.ts'

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
      case 'rewrite':
        return placeRewrite(batch, item, index)
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
    unsummarised: [...batch.unsummarised.values()],
    unarchived,
  }
}

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
  const written = draft
    ? batch.write(ended, { draft, turn, answers: readTo, replaces: row.replaces ?? [], ...failed })
    : ended
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
  const stopped = draft
    ? batch.write(ended, { draft, turn, answers, replaces: row.replaces ?? [], status: 'stopped' })
    : ended
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

function waitingFor(seq: number, { turn, epoch, compacting, asked, answered }: Conversation) {
  if (seq <= answered || seq > asked) return {}
  if (turn !== null) return { live: { turn, epoch } }
  return compacting === null ? {} : { nextEpoch: epoch + 1 }
}
