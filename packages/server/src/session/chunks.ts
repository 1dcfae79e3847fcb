// The table of chunks. It carries what agents say, before it is in the log, to readers on other pods. One statement serves
// any number of turns. Guarantees:
//   E1  all chunks of an attempt that is not current are rejected, and their writer is told so. Chunks that slip in while
//       the claim changes hands carry the old attempt's number, and nobody reads them.
//   S1  rows are found by (tenant, turn)
import { MESSAGE_LIMITS } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Metrics } from '../telemetry/metrics.ts'

export type TurnKey = { readonly tenant: number; readonly turn: string }

/** Chunks `index` to `index` + `count` - 1 of an attempt, as a JSON array in which deltas are merged. A count of 0 only asks
 *  whether the attempt is current. */
export type Batch = { readonly index: number; readonly count: number; readonly body: string }
type Flushed = TurnKey & Batch & { readonly attempt: number; readonly pod: number }

// Reads the claim without a lock: with one, the end of a turn would have to wait for its chunks. After an unknown outcome the
// same batch is sent again and changes nothing. A transient batch is sent again with a shorter body once readers have seen it.
export const CHUNKS_FLUSH = `
  with held as (
    select s.* from unnest($1::int[], $2::uuid[], $3::int[], $4::int[], $5::int[], $6::int[], $7::text[])
           with ordinality s(tenant, turn, attempt, pod, index, count, body, n)
      join fleetline.tasks k on k.tenant = s.tenant and k.id = s.turn and k.attempt = s.attempt and k.pod = s.pod),
  written as (
    insert into fleetline.chunks (tenant, turn, attempt, index, count, body)
    select tenant, turn, attempt, index, count, body from held where count > 0
    on conflict (tenant, turn, attempt, index) do update set body = excluded.body where octet_length(excluded.body) < octet_length(chunks.body))
  select n::int as n from held`

export type Chunks = {
  /** The indexes of the batches whose attempt is current. Nothing is written of the others. */
  readonly flush: (batches: readonly Flushed[]) => Promise<ReadonlySet<number>>
  /** By index in `wanted`. If an index is missing, there is no such turn. */
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
    const outcome = await database.transaction(work, { access, deadlineMs: CHUNKS_DEADLINE_MS })
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

/** How far a reader has read. */
export type WantedChunks = TurnKey & { readonly attempt: number; readonly next: number }
/** The current attempt, and the pod that runs it. In ChunksRead, `standing` is null if the turn has ended; `batches` is what
 *  the current attempt has said after the reader's position. */
type AttemptState = { readonly attempt: number; readonly state: string; readonly pod: string | null }
export type ChunksRead = {
  readonly standing: AttemptState | null
  /** The turn was stopped, and its agent may still be working. */
  readonly isHalting: boolean
  readonly batches: readonly Batch[]
}

// READ_BYTES is a rough limit for all turns together. Each turn may read at least LEAST_BYTES.
const READ_BYTES = 8 * 1024 * 1024
const LEAST_BYTES = 16 * 1024
/** A statement that hangs delays all streams. The next tick tries again. */
export const CHUNKS_DEADLINE_MS = 2_000

// A turn without a task has ended. A reader of another attempt starts at 0. Only the bodies that are returned are unpacked:
// PostgreSQL knows the length of a body without unpacking it.
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

const SAID = `
  select w.n::int as n, c.index, c.count, c.body
    from unnest($1::int[], $2::uuid[], $3::int[]) with ordinality w(tenant, turn, attempt, n)
   cross join lateral (
     select *, sum(octet_length(body)) over (order by index) - octet_length(body) as bytes_before
       from fleetline.chunks where tenant = w.tenant and turn = w.turn and attempt = w.attempt) c
   where c.bytes_before < $4::float8
   order by w.n, c.index`
const SAID_BYTES = 2 * MESSAGE_LIMITS.replyBytes // more than a reply may be

/** By index in `attempts`: what each has said, as far as it has reached the table and can be stored. */
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

/** Runs after the commit that ended the turns, so that no end waits for it. Rows that stay behind do no harm: readers look at
 *  the task first, and that is gone. */
export async function deleteChunks(query: Query, turns: readonly TurnKey[]): Promise<void> {
  await query(DELETE, columnsOf(turns, 'tenant', 'turn'))
}

// A turn's task exists before its first chunk and is deleted when the turn ends. The query steps from turn to turn along the
// key, because there are many more rows than turns.
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
