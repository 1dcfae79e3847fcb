// The write path of sessions. Each batch is one transaction: lock the sessions, read, place, write, commit, then answer.
// Guarantees:
//   L1   an answer is sent after the commit of its transaction, never before
//   L2   the lock on the session's row sets the order: seqs are dense from 1, whichever pods the messages come through
//   L4   an id takes one seq. A repeat is answered from a transaction that holds the row lock, so it commits after the
//        original. A plain read could find a message that has not reached any standby yet.
//   L11  a rejected item is one result among others; if PostgreSQL cannot store an item, only its sender gets the error
//   E1   a turn ends under two fences: the epoch in the session's row, and the claim of its task. Both are checked under
//        lock in the transaction that writes the message.
//   E8   a stop moves the epoch and ends the claim, whichever pod has it, in the transaction that stores what the agent has
//        said so far. Later writes of that attempt are rejected.
//   S35  nothing is written into an erased session: its turn and its compaction end without a message
//   I2   a member's cursor moves in the transaction of its message, or of its read
//   E4   a message that wakes an agent is committed together with the conversation's step, the turn and its task
// Locks are taken in one order: sessions, then tasks. If a lock or a deadlock keeps a transaction from committing, it is
// retried until the deadline. If the outcome of a commit is unknown, the answer is "unavailable". The sender then repeats
// the message under the same id and gets the true answer; an attempt that ends a turn gets it from the turn's row.
import { formatId, uuidV7 } from '@fleetline/protocol'
import { Bug, Rejected, Retry } from '../errors.ts'
import { createBatcher, HELD } from '../lib/batcher.ts'
import type { Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Outcome, type Query } from '../store/database.ts'
import { isDataFault, isHeldUp, isValueFault } from '../store/sqlstate.ts'
import { untilCommitted } from '../store/until-committed.ts'
import { withPartitions } from '../task/partitions.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { keyOf } from './draft.ts'
import {
  isReplyOf,
  nameOf,
  type Append,
  type Appended,
  type Closed,
  type CompactionEnd,
  type CursorMove,
  type Expiry,
  type Item,
  type MarkedRead,
  type MarkRead,
  type Placed,
  type Result,
  type Rewrite,
  type Rewritten,
  type SessionKey,
  type SessionState,
  type Stop,
  type Stopped,
  type StoredMessage,
  type TurnEnd,
  type TurnEnded,
} from './items.ts'
import { place } from './place.ts'
import { setArchived, type Membership } from './archive.ts'
import { AUTHOR_KINDS, ROLES, STATUSES } from './column-codes.ts'
import { endCompactions, findWritableEnds, forgetSummaries, startCompactions } from './compactions.ts'
import { findRewrites } from './find-rewrites.ts'
import { MESSAGE_FORMAT } from './message-format.ts'
import { findCursors, moveCursors } from './read-cursors.ts'
import { formatRanges } from './seq-ranges.ts'
import { closeTurns, findStops, findTurns, startTurns } from './turns.ts'

export type Appender = Service & {
  readonly append: (item: Append) => Promise<Appended>
  /** May be repeated: the same attempt gets the same answer. */
  readonly endTurn: (item: TurnEnd) => Promise<TurnEnded>
  /** Resolves once the fence has moved and what the agent has said is stored (E8). A repeat gets the same answer. */
  readonly stopTurn: (item: Stop) => Promise<Stopped>
  /** Starts a turn that writes a reply anew, or answers an edited message. A repeat gets the same answer (E10). */
  readonly rewrite: (item: Rewrite) => Promise<Rewritten>
  /** Stores the summary, or that there is none, and ends the compaction. */
  readonly endCompaction: (item: CompactionEnd) => Promise<TurnEnded>
  /** Ends a turn as failed if its time limit has passed and no pod has claimed it. */
  readonly expireTurn: (item: Expiry) => Promise<TurnEnded>
  /** Moves the cursor of a member. May be repeated. */
  readonly markRead: (item: MarkRead) => Promise<MarkedRead>
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
  readonly deadlineMs: number
  readonly metrics: Metrics
  /** Called after the commit and before the answers, with the new state of each session that changed. */
  readonly onGrown: (sessions: readonly SessionState[]) => void
  /** Called after a commit that started turns or compactions. */
  readonly onTurns: () => void
  /** Called after a commit that ended turns. */
  readonly onEnded: (turns: readonly Closed[]) => void
  /** Called after a commit that moved cursors. */
  readonly onRead: (cursors: readonly CursorMove[]) => void
  /** Called after a commit that un-archived a session, for each of its members. */
  readonly onMembershipChanged: (tenant: number, user: string, session: string) => void
}

const STOP_BYTES = 256 * 1024 // assumed weight of a stop: its batch also reads and writes what its turn has said
const SHORT = { lockTimeoutMs: 100 } // how long one locked task may delay the rest of its batch
const BATCH = { maxItems: 256, maxWeight: 4 * 1024 * 1024 }
const WAITING = { maxWaiting: 4_096, maxWaitingWeight: 64 * 1024 * 1024 }

// Locks are taken in the order of ids, so that two batches cannot deadlock. A batch skips sessions that somebody else has
// locked; a plain read then tells these from sessions that do not exist.
const SESSION_WAIT = `
  select s.tenant, s.id as session, s.head, s.agent, s.turn, s.epoch, s.asked, s.answered, s.replied,
         s.failed_epoch as "failedEpoch", s.compacting, s.summarised, s.next_try_seq as "nextTrySeq", s.version,
         s.archived_at is not null as "isArchived", s.erased_at is not null as "isErased", s.erase_count as "eraseCount"
    from unnest($1::int[], $2::uuid[]) k(tenant, id)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.id
   order by s.id for update of s`
export const SESSION_LOCK = `${SESSION_WAIT} skip locked`
const SESSION_THERE = `
  select s.tenant, s.id as session
    from unnest($1::int[], $2::uuid[]) k(tenant, id)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.id`

// A separate statement, so that its snapshot is taken after the locks. With three equalities the planner may scan the whole
// session by the primary key; the row comparison with a limit can only use the index of keys.
export const SESSION_SEEN = `
  select k.n::int as n, m.seq, m.digest, m.erased as "isErased"
    from unnest($1::int[], $2::uuid[], $3::uuid[]) with ordinality k(tenant, session, key, n)
   cross join lateral (
     select seq, digest, erased, session, key from fleetline.messages
      where tenant = k.tenant and (session, key) >= (k.session, k.key)
      order by tenant, session, key limit 1) m
   where m.session = k.session and m.key = k.key`

// Uses the statement's time: the transaction began before the lock. So times follow the seqs within a session. A session moves up
// in the inbox when it has a new item, or a turn of it has failed.
export const SESSION_WRITE = `
  with stepped as (
    update fleetline.sessions s
       set head = v.head, turn = v.turn, epoch = v.epoch, asked = v.asked, answered = v.answered, replied = v.replied,
           failed_epoch = v.failed_epoch, compacting = v.compacting, summarised = v.summarised,
           next_try_seq = v.next_try_seq, version = v.version,
           archived_at = case when v.is_archived then s.archived_at end,
           replaced = case when v.replaced is null then s.replaced else s.replaced + v.replaced::int4multirange end,
           updated_at = case when v.head > s.head or v.failed_epoch > coalesce(s.failed_epoch, 0)
                             then statement_timestamp() else s.updated_at end
      from unnest($1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::int[], $7::int[], $8::int[], $9::int[],
                  $10::uuid[], $11::int[], $12::int[], $13::int[], $14::boolean[], $15::text[])
           v(tenant, id, head, turn, epoch, asked, answered, replied, failed_epoch, compacting, summarised, next_try_seq, version,
             is_archived, replaced)
     where s.tenant = v.tenant and s.id = v.id)
  insert into fleetline.messages
    (at, tenant, session, seq, key, digest, role, author_kind, id, author, format, body, turn, answers, status, replaces)
  select statement_timestamp(), v.tenant, v.session, v.seq, v.key, v.digest, v.role, v.author_kind, v.id, v.author,
         ${MESSAGE_FORMAT}, v.body::jsonb, v.turn, v.answers, v.status, v.replaces::int4multirange
    from unnest($16::int[], $17::uuid[], $18::int[], $19::uuid[], $20::bigint[], $21::smallint[], $22::smallint[],
                $23::text[], $24::text[], $25::text[], $26::uuid[], $27::int[], $28::smallint[], $29::text[])
         v(tenant, session, seq, key, digest, role, author_kind, id, author, body, turn, answers, status, replaces)`

export function createAppender(deps: Deps): Appender {
  const { clock, metrics } = deps
  const commit = async (items: readonly Item[], isAlone: boolean) =>
    committed(
      isAlone
        ? await untilCommitted(deps, async (query) =>
            appendAll(deps, query, items, await lockSessions(query, items, SESSION_WAIT)),
          )
        : await untilCommitted(deps, (query) => appendFree(deps, query, items), SHORT),
    )
  const batcher = createBatcher<Item, Result>({
    name: 'append',
    clock,
    deadlineMs: deps.deadlineMs,
    ...BATCH,
    ...WAITING,
    weigh: weightOf,
    keyOf: nameOf,
    commit: async (items, isAlone) => {
      const placed = await withPartitions(deps.database, () => commit(items, isAlone))
      const { results, changed, started, closed, cursors, startedCompactions, members } = placed
      await crashPoint('append.committed')
      deps.onGrown(changed)
      if (started.length + startedCompactions.length > 0) deps.onTurns()
      if (closed.length > 0) deps.onEnded(closed)
      if (cursors.length > 0) deps.onRead(cursors)
      for (const { tenant, user, session } of members) deps.onMembershipChanged(tenant, user, session)
      return results
    },
    isRefusal: isDataFault,
    isHeldUp,
  })
  return {
    name: 'append',
    start: async () => undefined,
    stop: () => batcher.flush(),
    append: async (item) => {
      const startMs = clock.monotonicMs()
      let outcome = 'failed'
      try {
        const appended = (await batcher.add({ type: 'message', ...item })) as Appended // `place` returns this for a message
        outcome = appended.type === 'stored' && appended.deduped ? 'repeated' : appended.type
        return appended
      } catch (error) {
        throw toSender(error)
      } finally {
        metrics.count('appends', { outcome })
        metrics.observe('appendTime', { outcome }, clock.monotonicMs() - startMs)
      }
    },
    endTurn: async (item) => {
      if (item.draft && !isReplyOf(item.turn, item.draft))
        throw new Bug('A reply does not have the id of its turn')
      const ended = (await batcher.add({ type: 'end', ...item })) as TurnEnded // `place` returns this for an end
      metrics.count('turnsEnded', { outcome: ended.type === 'ended' ? item.outcome : ended.type })
      return ended
    },
    stopTurn: async (item) => {
      const stopped = (await batcher.add({ type: 'stop', ...item })) as Stopped // `place` returns this for a stop
      if (stopped.type === 'stopped' && !stopped.isRepeat) metrics.count('turnsEnded', { outcome: 'stopped' })
      return stopped
    },
    rewrite: async (item) => {
      const rewritten = (await batcher.add({ type: 'rewrite', ...item }).catch((error: unknown) => {
        throw toSender(error)
      })) as Rewritten // `place` returns this for a rewrite
      metrics.count('rewrites', { outcome: outcomeOf(rewritten) })
      return rewritten
    },
    expireTurn: async (item) => {
      const ended = (await batcher.add({ type: 'expire', ...item })) as TurnEnded // `place` returns this for an expiry
      metrics.count('turnsEnded', { outcome: ended.type === 'ended' ? 'failed' : ended.type })
      return ended
    },
    endCompaction: async (item) => {
      const ended = (await batcher.add({ type: 'compacted', ...item })) as TurnEnded // `place` returns this for a compaction
      metrics.count('compactions', { outcome: ended.type === 'ended' ? item.outcome : ended.type })
      return ended
    },
    markRead: async (item) => (await batcher.add({ type: 'read', ...item })) as MarkedRead, // `place` returns this for a read
  }
}

function outcomeOf(rewritten: Rewritten): string {
  return rewritten.type === 'rewritten' && rewritten.isRepeat ? 'repeated' : rewritten.type
}

function weightOf(item: Item): number {
  if (item.type === 'compacted') return item.outcome === 'done' ? item.text.length : 0
  if (item.type === 'stop') return STOP_BYTES
  if (item.type === 'rewrite') return STOP_BYTES + (item.draft?.bytes ?? 0)
  const draft = 'draft' in item ? item.draft : undefined
  return (draft?.bytes ?? 0) + ('error' in item ? item.error.message.length : 0)
}

function toSender(error: unknown): unknown {
  if (!isValueFault(error)) return error
  return new Rejected('invalid', 'PostgreSQL cannot store this message', { cause: error })
}

function committed<T>(outcome: Outcome<T>): T {
  if (outcome.type === 'unknown')
    throw new Retry('unavailable', 'Whether it was stored is not known', { cause: outcome.error })
  return valueOf(outcome, 'It was not stored')
}

type Locked = ReadonlyMap<string, SessionState>

/** What a batch has done, and the members of sessions that it has un-archived. */
type Done = Placed & { readonly members: readonly Membership[] }

/** Returns HELD for items whose session another transaction has locked; stores the others. */
async function appendFree(deps: Deps, query: Query, items: readonly Item[]): Promise<Done> {
  const locked = await lockSessions(query, items, SESSION_LOCK)
  const there = await findHeld(query, items, locked)
  const isFree = (item: Item) => !there.has(nameOf(item))
  const placed = await appendAll(deps, query, there.size > 0 ? items.filter(isFree) : items, locked)
  if (there.size === 0) return placed
  const results = placed.results.values()
  return { ...placed, results: items.map((item) => (isFree(item) ? results.next().value! : HELD)) }
}

async function appendAll(
  { clock, random, cell }: Deps,
  query: Query,
  items: readonly Item[],
  sessions: Locked,
): Promise<Done> {
  const ends = placesOf(items, 'end')
  const stops = new Map<number, Stop>([...placesOf(items, 'stop'), ...placesOf(items, 'expire')])
  const stored = await findStored(query, items, cell)
  const { turns, held } = await findTurns(query, ends)
  const isLive = (stop: Stop) => sessions.get(nameOf(stop))?.turn === stop.turn
  const rewriting = await findRewrites(query, placesOf(items, 'rewrite'), sessions, cell)
  for (const [place, live] of rewriting.live) stops.set(place, live)
  const stopping = await findStops(query, stops, isLive, cell)
  const cursors = await findCursors(query, placesOf(items, 'read'))
  const compactions = await findWritableEnds(query, placesOf(items, 'compacted'))
  const found = {
    sessions,
    stored,
    turns: new Map([...turns, ...stopping.turns]),
    held: new Set([...held, ...compactions]),
    open: stopping.open,
    cursors,
    rewrites: rewriting.found,
  }
  const placed = place(items, found, () => uuidV7(clock.now(), random.bytes(10)))
  await closeTurns(query, placed.closed)
  await endCompactions(query, placed.endedCompactions)
  if (placed.changed.length > 0) await write(query, placed)
  await forgetSummaries(query, placed.unsummarised)
  await moveCursors(query, placed.cursors)
  const unarchived = await setArchived(query, placed.unarchived, false)
  await startTurns(query, placed.started, cell)
  await startCompactions(query, placed.startedCompactions, cell)
  return { ...placed, members: unarchived }
}

/** The items of one type, by their index in the batch. */
function placesOf<Type extends Item['type']>(
  items: readonly Item[],
  type: Type,
): Map<number, Extract<Item, { readonly type: Type }>> {
  type OfType = Extract<Item, { readonly type: Type }>
  const isOfType = (item: Item): item is OfType => item.type === type
  return new Map(items.flatMap((item, index) => (isOfType(item) ? [[index, item] as const] : [])))
}

async function lockSessions(
  query: Query,
  items: readonly Item[],
  statement: string,
): Promise<Map<string, SessionState>> {
  const rows = await query<SessionState>(statement, keysOf(items))
  return new Map(rows.map((row) => [nameOf(row), row]))
}

/** The sessions that exist but that this batch could not lock. */
async function findHeld(query: Query, items: readonly Item[], locked: Locked): Promise<Set<string>> {
  const missing = items.filter((item) => !locked.has(nameOf(item)))
  if (missing.length === 0) return new Set()
  const rows = await query<SessionKey>(SESSION_THERE, keysOf(missing))
  return new Set(rows.map(nameOf))
}

function keysOf(items: readonly SessionKey[]): unknown[][] {
  const sessions = [...new Map(items.map((item) => [nameOf(item), item])).values()]
  return columnsOf(sessions, 'tenant', 'session')
}

/** Looks up the messages, and the replies of turns that are to be stopped. */
async function findStored(
  query: Query,
  items: readonly Item[],
  cell: number,
): Promise<Map<number, StoredMessage>> {
  const keys = new Map<number, SessionKey & { readonly key: string }>()
  for (const [place, { draft, ...item }] of [...placesOf(items, 'message'), ...placesOf(items, 'rewrite')])
    if (draft) keys.set(place, { ...item, key: draft.key })
  for (const [place, item] of placesOf(items, 'stop'))
    keys.set(place, { ...item, key: keyOf(formatId('message', cell, item.turn)) })
  if (keys.size === 0) return new Map()
  const [places, list] = [[...keys.keys()], [...keys.values()]]
  const rows = await query<StoredMessage & { n: number }>(
    SESSION_SEEN,
    columnsOf(list, 'tenant', 'session', 'key'),
  )
  return new Map(rows.map(({ n, ...message }) => [places[n - 1]!, message]))
}

async function write(query: Query, { changed, written }: Placed): Promise<void> {
  const drafts = written.map(({ draft }) => draft)
  await query(SESSION_WRITE, [
    ...columnsOf(
      changed,
      'tenant',
      'session',
      'head',
      'turn',
      'epoch',
      'asked',
      'answered',
      'replied',
      'failedEpoch',
      'compacting',
      'summarised',
      'nextTrySeq',
      'version',
      'isArchived',
    ),
    changed.map(({ replaced }) => (replaced ? formatRanges(replaced) : null)),
    ...columnsOf(written, 'tenant', 'session', 'seq'),
    ...columnsOf(drafts, 'key', 'digest'),
    drafts.map(({ role }) => ROLES.indexOf(role)),
    drafts.map(({ author }) => AUTHOR_KINDS.indexOf(author.kind)),
    drafts.map(({ id }) => id),
    drafts.map(({ author }) => author.id ?? null),
    drafts.map(({ body }) => body),
    written.map(({ turn = null }) => turn),
    written.map(({ answers = null }) => answers),
    written.map(({ status }) => (status === undefined ? null : STATUSES.indexOf(status))),
    written.map(({ replaces = [] }) => (replaces.length > 0 ? formatRanges(replaces) : null)),
  ])
}
