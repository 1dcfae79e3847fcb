// THE WRITE PATH: lock, read, place, write, commit, answer; one transaction a batch. Guarantees:
//   L1   an answer comes after the commit of the transaction that it tells of, and never before
//   L2   the lock on the session's row gives the order: seqs are dense from 1, through whichever pods they come
//   L4   an id takes one seq; a repeat is answered from a transaction that holds the row's lock, so that its own commit
//        lies behind the first one's: what a plain read finds may not be on any standby yet
//   L11  a refused item is a result among others; what PostgreSQL cannot store is told to its sender alone
// What ended as not committed because of a lock or a deadlock is tried again until the deadline. An unknown outcome is
// told as unavailable: the sender repeats under the same id, and finds the truth.
import { Rejected, Retry } from '../errors.ts'
import { createBatcher } from '../lib/batcher.ts'
import type { Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Database, type Outcome, type Query } from '../store/database.ts'
import { isDataFault, isValueFault } from '../store/sqlstate.ts'
import { untilCommitted } from '../store/until-committed.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import {
  nameOf,
  place,
  type Append,
  type Appended,
  type Placed,
  type SessionKey,
  type Stored,
} from './place.ts'
import { AUTHOR_KINDS, ROLES } from './stored.ts'

export type Appender = Service & {
  readonly append: (item: Append) => Promise<Appended>
}
type Deps = {
  readonly database: Pick<Database, 'transaction'>
  readonly clock: Clock
  readonly random: Random
  readonly deadlineMs: number
  readonly metrics: Metrics
  /** Called after commit, before the answers: the new heads of the sessions that grew. */
  readonly onGrown: (heads: Iterable<SessionKey & { readonly head: number }>) => void
}

const BATCH = { maxItems: 256, maxWeight: 4 * 1024 * 1024 }
const WAITING = { maxWaiting: 4_096, maxWaitingWeight: 64 * 1024 * 1024 }

// Locks are taken in the order of ids, so that two batches never wait for each other in a ring.
export const SESSION_LOCK = `
  select s.tenant, s.id as session, s.head
    from unnest($1::int[], $2::uuid[]) k(tenant, id)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.id
   order by s.id for update of s`

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
    update fleetline.sessions s set head = v.head, updated_at = statement_timestamp()
      from unnest($1::int[], $2::uuid[], $3::int[]) v(tenant, id, head)
     where s.tenant = v.tenant and s.id = v.id)
  insert into fleetline.messages
    (at, tenant, session, seq, key, digest, role, author_kind, id, author, body)
  select statement_timestamp(), v.tenant, v.session, v.seq, v.key, v.digest, v.role, v.author_kind, v.id, v.author,
         v.body::jsonb
    from unnest($4::int[], $5::uuid[], $6::int[], $7::uuid[], $8::bigint[], $9::smallint[], $10::smallint[],
                $11::text[], $12::text[], $13::text[])
         v(tenant, session, seq, key, digest, role, author_kind, id, author, body)`

export function createAppender(deps: Deps): Appender {
  const { clock, metrics } = deps
  const batcher = createBatcher<Append, Appended>({
    name: 'append',
    ...BATCH,
    ...WAITING,
    weigh: ({ draft }) => draft.bytes,
    commit: async (items) => {
      const { results, heads } = committed(await untilCommitted(deps, (query) => appendAll(query, items)))
      await crashPoint('append.committed')
      deps.onGrown(heads.values())
      return results
    },
    isRefusal: isDataFault,
  })
  return {
    name: 'append',
    start: async () => undefined,
    stop: () => batcher.flush(),
    append: async (item) => {
      const startMs = clock.monotonicMs()
      let outcome = 'failed'
      try {
        const appended = await batcher.add(item)
        outcome = appended.type === 'stored' && appended.deduped ? 'repeated' : appended.type
        return appended
      } catch (error) {
        throw toSender(error)
      } finally {
        metrics.count('appends', { outcome })
        metrics.observe('appendTime', { outcome }, clock.monotonicMs() - startMs)
      }
    },
  }
}

function toSender(error: unknown): unknown {
  if (!isValueFault(error)) return error
  return new Rejected('invalid', 'PostgreSQL cannot store this message', { cause: error })
}

function committed<T>(outcome: Outcome<T>): T {
  if (outcome.type === 'unknown')
    throw new Retry('unavailable', 'Whether the message was stored is not known', { cause: outcome.error })
  return valueOf(outcome, 'The message was not stored')
}

async function appendAll(query: Query, items: readonly Append[]): Promise<Placed> {
  const heads = await lockSessions(query, items)
  const placed = place(items, { heads, stored: await findStored(query, items) })
  if (placed.written.length > 0) await write(query, placed)
  return placed
}

async function lockSessions(query: Query, items: readonly Append[]): Promise<Map<string, number>> {
  const sessions = [...new Map(items.map((item) => [nameOf(item), item])).values()]
  const rows = await query<SessionKey & { head: number }>(SESSION_LOCK, [
    sessions.map(({ tenant }) => tenant),
    sessions.map(({ session }) => session),
  ])
  return new Map(rows.map((row) => [nameOf(row), row.head]))
}

async function findStored(query: Query, items: readonly Append[]): Promise<Map<number, Stored>> {
  const rows = await query<Stored & { n: number }>(SESSION_SEEN, [
    items.map(({ tenant }) => tenant),
    items.map(({ session }) => session),
    items.map(({ draft }) => draft.key),
  ])
  return new Map(rows.map(({ n, seq, digest }) => [n - 1, { seq, digest }]))
}

async function write(query: Query, { heads, written }: Placed): Promise<void> {
  const sessions = [...heads.values()]
  const drafts = written.map(({ item }) => item.draft)
  await query(SESSION_WRITE, [
    sessions.map(({ tenant }) => tenant),
    sessions.map(({ session }) => session),
    sessions.map(({ head }) => head),
    written.map(({ item }) => item.tenant),
    written.map(({ item }) => item.session),
    written.map(({ seq }) => seq),
    drafts.map(({ key }) => key),
    drafts.map(({ digest }) => digest),
    drafts.map(({ role }) => ROLES.indexOf(role)),
    drafts.map(({ author }) => AUTHOR_KINDS.indexOf(author.kind)),
    drafts.map(({ id }) => id),
    drafts.map(({ author }) => author.id ?? null),
    drafts.map(({ body }) => body),
  ])
}
