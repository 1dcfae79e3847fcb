// THE WRITE PATH: lock, read, place, write, commit, answer; one transaction a batch. Guarantees:
//   L1   an answer comes after the commit of the transaction that it tells of, and never before
//   L2   the lock on the session's row gives the order: seqs are dense from 1, through whichever pods they come
//   L4   an id takes one seq; a repeat is answered from a transaction that holds the row's lock, so that its own commit
//        lies behind the first one's: what a plain read finds may not be on any standby yet
//   L11  a refused item is a result among others; what PostgreSQL cannot store is told to its sender alone
//   E1   a turn ends under two fences, both looked at under lock in the transaction that writes its message: the epoch, in
//        the session's row, and the claim of its task
//   E8   a stop moves the epoch and ends the claim, whoever has it, in the transaction that stores what was said: whatever its
//        attempt writes later is refused
//   E4   a message that wakes an agent, the step of its conversation, the turn and its task are one commit
// Locks are taken in one order: sessions, then tasks. What ended as not committed because of a lock or a deadlock is tried
// again until the deadline. An unknown outcome is told as unavailable: the sender repeats under the same id, and finds the
// truth; who ends a turn finds it in the turn's row.
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
  place,
  type Append,
  type Appended,
  type Closed,
  type Expiry,
  type Item,
  type Placed,
  type Result,
  type SessionKey,
  type SessionState,
  type Stop,
  type Stopped,
  type StoredMessage,
  type TurnEnd,
  type TurnEnded,
} from './place.ts'
import { AUTHOR_KINDS, ROLES, STATUSES } from './column-codes.ts'
import { closeTurns, findStops, findTurns, startTurns } from './turns.ts'

export type Appender = Service & {
  readonly append: (item: Append) => Promise<Appended>
  /** May be repeated: by the same attempt, the answer is the same. */
  readonly endTurn: (item: TurnEnd) => Promise<TurnEnded>
  /** Answered once the fence has moved and what the turn had said is stored (E8). May be repeated: the answer is the same. */
  readonly stopTurn: (item: Stop) => Promise<Stopped>
  /** Ends a turn whose time is over as failed, if no pod has it. */
  readonly expireTurn: (item: Expiry) => Promise<TurnEnded>
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
  readonly deadlineMs: number
  readonly metrics: Metrics
  /** Called after commit, before the answers: the sessions that changed, as they are now. */
  readonly onGrown: (sessions: Iterable<SessionState>) => void
  /** Called after a commit that started turns. */
  readonly onTurns: () => void
  /** Called after a commit that ended these. */
  readonly onEnded: (turns: readonly Closed[]) => void
}

const STOP_BYTES = 256 * 1024 // what its turn may have said is read, and written, in the batch
const SHORT = { lockTimeoutMs: 100 } // a task that somebody holds stops the others of the batch for no longer
const BATCH = { maxItems: 256, maxWeight: 4 * 1024 * 1024 }
const WAITING = { maxWaiting: 4_096, maxWaitingWeight: 64 * 1024 * 1024 }

// Locks are taken in the order of ids, so that two batches never wait for each other in a ring. A batch leaves out what
// somebody else holds; of what it did not get, a plain look tells what is there.
const SESSION_WAIT = `
  select s.tenant, s.id as session, s.head, s.agent, s.turn, s.epoch, s.asked, s.answered
    from unnest($1::int[], $2::uuid[]) k(tenant, id)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.id
   order by s.id for update of s`
export const SESSION_LOCK = `${SESSION_WAIT} skip locked`
const SESSION_THERE = `
  select s.tenant, s.id as session
    from unnest($1::int[], $2::uuid[]) k(tenant, id)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.id`

// A statement of its own, so that its snapshot is younger than the locks. With three equalities the planner may walk the
// whole session by the primary key; the row comparison with a limit can only use the index of keys.
export const SESSION_SEEN = `
  select k.n::int as n, m.seq, m.digest
    from unnest($1::int[], $2::uuid[], $3::uuid[]) with ordinality k(tenant, session, key, n)
   cross join lateral (
     select seq, digest, session, key from fleetline.messages
      where tenant = k.tenant and (session, key) >= (k.session, k.key)
      order by tenant, session, key limit 1) m
   where m.session = k.session and m.key = k.key`

// The time is the statement's, not the transaction's, which began before the lock: within a session it follows the seq.
export const SESSION_WRITE = `
  with stepped as (
    update fleetline.sessions s
       set head = v.head, turn = v.turn, epoch = v.epoch, asked = v.asked, answered = v.answered,
           updated_at = statement_timestamp()
      from unnest($1::int[], $2::uuid[], $3::int[], $4::uuid[], $5::int[], $6::int[], $7::int[])
           v(tenant, id, head, turn, epoch, asked, answered)
     where s.tenant = v.tenant and s.id = v.id)
  insert into fleetline.messages
    (at, tenant, session, seq, key, digest, role, author_kind, id, author, body, turn, answers, status)
  select statement_timestamp(), v.tenant, v.session, v.seq, v.key, v.digest, v.role, v.author_kind, v.id, v.author,
         v.body::jsonb, v.turn, v.answers, v.status
    from unnest($8::int[], $9::uuid[], $10::int[], $11::uuid[], $12::bigint[], $13::smallint[], $14::smallint[],
                $15::text[], $16::text[], $17::text[], $18::uuid[], $19::int[], $20::smallint[])
         v(tenant, session, seq, key, digest, role, author_kind, id, author, body, turn, answers, status)`

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
      const { results, changed, started, closed } = placed
      await crashPoint('append.committed')
      deps.onGrown(changed)
      if (started.length > 0) deps.onTurns()
      if (closed.length > 0) deps.onEnded(closed)
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
        const appended = (await batcher.add({ type: 'message', ...item })) as Appended // what place answers to a message
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
      const ended = (await batcher.add({ type: 'end', ...item })) as TurnEnded // what place answers to an end
      metrics.count('turnsEnded', { outcome: ended.type === 'ended' ? item.outcome : ended.type })
      return ended
    },
    stopTurn: async (item) => {
      const stopped = (await batcher.add({ type: 'stop', ...item })) as Stopped // what place answers to a stop
      if (stopped.type === 'stopped' && !stopped.isRepeat) metrics.count('turnsEnded', { outcome: 'stopped' })
      return stopped
    },
    expireTurn: async (item) => {
      const ended = (await batcher.add({ type: 'expire', ...item })) as TurnEnded // what place answers to an expiry
      metrics.count('turnsEnded', { outcome: ended.type === 'ended' ? 'failed' : ended.type })
      return ended
    },
  }
}

function weightOf(item: Item): number {
  if (item.type === 'stop') return STOP_BYTES
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

/** Without what somebody else holds: that is answered so, and the others are stored. */
async function appendFree(
  deps: Deps,
  query: Query,
  items: readonly Item[],
): Promise<Omit<Placed, 'results'> & { readonly results: readonly (Result | typeof HELD)[] }> {
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
): Promise<Placed> {
  const ends = placesOf(items, 'end')
  const stops = new Map<number, Stop>([...placesOf(items, 'stop'), ...placesOf(items, 'expire')])
  const stored = await findStored(query, items, cell)
  const { turns, held } = await findTurns(query, ends)
  const isLive = (stop: Stop) => sessions.get(nameOf(stop))?.turn === stop.turn
  const stopping = await findStops(query, stops, isLive, cell)
  const found = { sessions, stored, turns: new Map([...turns, ...stopping.turns]), held, open: stopping.open }
  const placed = place(items, found, () => uuidV7(clock.now(), random.bytes(10)))
  await closeTurns(query, placed.closed)
  if (placed.changed.length > 0) await write(query, placed)
  await startTurns(query, placed.started, cell)
  return placed
}

/** The items of one kind, each with its place in the batch. */
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

/** Those that are there, and that we did not get. */
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

/** Of messages, and of the replies of turns that are to be stopped. */
async function findStored(
  query: Query,
  items: readonly Item[],
  cell: number,
): Promise<Map<number, StoredMessage>> {
  const keys = new Map<number, SessionKey & { readonly key: string }>()
  for (const [place, { draft, ...item }] of placesOf(items, 'message'))
    keys.set(place, { ...item, key: draft.key })
  for (const [place, item] of placesOf(items, 'stop'))
    keys.set(place, { ...item, key: keyOf(formatId('message', cell, item.turn)) })
  if (keys.size === 0) return new Map()
  const [places, list] = [[...keys.keys()], [...keys.values()]]
  const rows = await query<StoredMessage & { n: number }>(
    SESSION_SEEN,
    columnsOf(list, 'tenant', 'session', 'key'),
  )
  return new Map(rows.map(({ n, seq, digest }) => [places[n - 1]!, { seq, digest }]))
}

async function write(query: Query, { changed, written }: Placed): Promise<void> {
  const drafts = written.map(({ draft }) => draft)
  await query(SESSION_WRITE, [
    ...columnsOf(changed, 'tenant', 'session', 'head', 'turn', 'epoch', 'asked', 'answered'),
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
  ])
}
