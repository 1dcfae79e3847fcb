// The table of chunks: what agents say before it is in the log, on its way to readers on other pods. Each statement is
// for as many turns as there are. Guarantees:
//   E1  chunks of an attempt that is not current are refused, as a whole, and their writer is told so; what slips in while
//       the claim changes hands bears its old attempt, which nobody reads
//   S1  rows are found by (tenant, turn)
import { MESSAGE_LIMITS } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Metrics } from '../telemetry/metrics.ts'

export type TurnKey = { readonly tenant: number; readonly turn: string }

/** Chunks `index` to `index` + `count` - 1 of an attempt, as a JSON array in which deltas are merged; of none, a question. */
export type Batch = { readonly index: number; readonly count: number; readonly body: string }
type Flushed = TurnKey & Batch & { readonly attempt: number; readonly pod: number }

// The claim is looked at, not locked: a lock would make the end of the turn wait for its words. Sent again after an unknown
// outcome, a batch is the same and changes nothing. One that was transient comes again, empty, when it was seen.
export const CHUNKS_FLUSH = `
  with held as (
    select s.* from unnest($1::int[], $2::uuid[], $3::int[], $4::int[], $5::int[], $6::int[], $7::text[])
           with ordinality s(tenant, turn, attempt, pod, index, count, body, n)
      join fleetline.tasks k on k.tenant = s.tenant and k.id = s.turn and k.attempt = s.attempt and k.pod = s.pod),
  written as (
    insert into fleetline.chunks (tenant, turn, attempt, index, count, body)
    select tenant, turn, attempt, index, count, body from held where count > 0
    on conflict (tenant, turn, attempt, index) do update set body = excluded.body where excluded.body = '[]')
  select n::int as n from held`

export type Chunks = {
  /** By their places: whose attempt is current. Of the others nothing is written. */
  readonly flush: (batches: readonly Flushed[]) => Promise<ReadonlySet<number>>
  /** By their places; one that is missing is no turn. */
  readonly read: (wanted: readonly WantedChunks[]) => Promise<ReadonlyMap<number, ChunksRead>>
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly metrics: Metrics
}

export function createChunks({ database, clock, metrics }: Deps): Chunks {
  const run = async <T>(statement: 'flush' | 'read', work: (query: Query) => Promise<T>): Promise<T> => {
    const startMs = clock.monotonicMs()
    const access = statement === 'read' ? 'read' : 'write'
    const outcome = await database.transaction(work, { access, deadlineMs: DEADLINE_MS })
    metrics.observe('chunkTime', { statement, outcome: outcome.type }, clock.monotonicMs() - startMs)
    return valueOf(outcome, `The ${statement} of chunks failed`)
  }
  return {
    flush: (batches) => run('flush', (query) => flush(query, batches)),
    read: (wanted) => run('read', (query) => read(query, wanted)),
  }
}

async function flush(query: Query, batches: readonly Flushed[]): Promise<ReadonlySet<number>> {
  const rows = await query<{ readonly n: number }>(
    CHUNKS_FLUSH,
    columnsOf(batches, 'tenant', 'turn', 'attempt', 'pod', 'index', 'count', 'body'),
  )
  return new Set(rows.map(({ n }) => n - 1))
}

/** Up to where a reader is. */
export type WantedChunks = TurnKey & { readonly attempt: number; readonly next: number }
/** Who runs the turn, null if it has ended, and what the current attempt has said behind that. */
type AttemptState = { readonly attempt: number; readonly state: string; readonly pod: string | null }
export type ChunksRead = {
  readonly standing: AttemptState | null
  /** It was stopped, and its agent may still be at work. */
  readonly isHalting: boolean
  readonly batches: readonly Batch[]
}

// Of all turns together, roughly; of one at least the second.
const READ_BYTES = 8 * 1024 * 1024
const LEAST_BYTES = 16 * 1024
const DEADLINE_MS = 2_000 // one that hangs holds up all streams: the next tick does it again

// A turn without a task has ended. Who is at another attempt begins at 0. Only what is taken
// is unpacked: the length of a body is known without.
const CHUNKS_READ = `
  select w.n::int as n, t.halting is not null as "isHalting", k.attempt, k.state, p.name as pod, c.index, c.count, c.body
    from unnest($1::int[], $2::uuid[], $3::int[], $4::int[]) with ordinality w(tenant, turn, attempt, next, n)
    join fleetline.turns t on t.tenant = w.tenant and t.id = w.turn
    left join fleetline.tasks k on k.tenant = w.tenant and k.id = w.turn
    left join fleetline.pods p on p.id = k.pod
    left join lateral (
      select *, sum(octet_length(body)) over (order by index) - octet_length(body) as bytes_before from (
        select index, count, body from fleetline.chunks
         where tenant = w.tenant and turn = w.turn and attempt = k.attempt
           and index >= case when w.attempt = k.attempt then w.next else 0 end
         order by index limit 4096) i
    ) c on c.bytes_before < $5::float8
   order by w.n, c.index`

type ChunkRow = (AttemptState | { readonly attempt: null }) &
  Pick<ChunksRead, 'isHalting'> & { readonly n: number } & (Batch | { readonly index: null })

async function read(query: Query, wanted: readonly WantedChunks[]): Promise<ReadonlyMap<number, ChunksRead>> {
  const rows = await query<ChunkRow>(CHUNKS_READ, [
    ...columnsOf(wanted, 'tenant', 'turn', 'attempt', 'next'),
    Math.max(LEAST_BYTES, READ_BYTES / wanted.length),
  ])
  const found = Map.groupBy(rows, ({ n }) => n - 1)
  return new Map(Array.from(found, ([place, its]) => [place, readOf(its)]))
}

function readOf(rows: readonly ChunkRow[]): ChunksRead {
  const first = rows[0]!
  const { attempt, isHalting } = first
  return {
    standing: attempt === null ? null : { attempt, state: first.state, pod: first.pod },
    isHalting,
    batches: rows.flatMap((row) => (row.index === null ? [] : [row])),
  }
}

// All that an attempt has said, in order.
const SAID = `
  select w.n::int as n, c.index, c.count, c.body
    from unnest($1::int[], $2::uuid[], $3::int[]) with ordinality w(tenant, turn, attempt, n)
   cross join lateral (
     select *, sum(octet_length(body)) over (order by index) - octet_length(body) as bytes_before
       from fleetline.chunks where tenant = w.tenant and turn = w.turn and attempt = w.attempt) c
   where c.bytes_before < $4::float8
   order by w.n, c.index`
const SAID_BYTES = 2 * MESSAGE_LIMITS.replyBytes // more than a reply may have

/** By their places: what the attempts have said, as far as it has come through and can be stored. */
export async function readSpoken(
  query: Query,
  attempts: readonly (TurnKey & { readonly attempt: number })[],
): Promise<readonly (readonly Batch[])[]> {
  const rows = await query<Batch & { readonly n: number }>(SAID, [
    ...columnsOf(attempts, 'tenant', 'turn', 'attempt'),
    SAID_BYTES,
  ])
  const found = Map.groupBy(rows, ({ n }) => n - 1)
  return attempts.map((_, place) => found.get(place) ?? [])
}

const DELETE = `
  delete from fleetline.chunks c using unnest($1::int[], $2::uuid[]) e(tenant, turn)
   where c.tenant = e.tenant and c.turn = e.turn`

/** After the commit in which they ended: no end waits for its words, and who reads them looks at the task. */
export async function deleteChunks(query: Query, turns: readonly TurnKey[]): Promise<void> {
  await query(DELETE, columnsOf(turns, 'tenant', 'turn'))
}

// A turn's task is there before its first chunk, and goes when it ends. Steps from turn to turn along the key: there are
// many more rows than turns.
const SWEEP = `
  with recursive spoken as (
    (select tenant, turn from fleetline.chunks order by tenant, turn limit 1)
    union all
    select c.* from spoken s cross join lateral (
      select tenant, turn from fleetline.chunks where (tenant, turn) > (s.tenant, s.turn)
       order by tenant, turn limit 1) c),
  over as (
    select * from spoken s
     where not exists (select from fleetline.tasks k where k.tenant = s.tenant and k.id = s.turn) limit 1000)
  delete from fleetline.chunks c using over o where c.tenant = o.tenant and c.turn = o.turn`

export async function sweepChunks(query: Query): Promise<void> {
  await query(SWEEP)
}
