// The leader's duties for downstreams. `shares` runs about once a second: it learns how many calls each downstream takes and
// publishes each pod's share. `old downstreams` runs once a minute and deletes old rows. A new row replaces only the row that
// it follows from, and only under the leader's term: if another leader was faster, nothing changes.
import { valueOf, type Query, type Transactions } from '../../store/database.ts'
import { IS_LEADER, type Duty, type Term } from '../../store/leader.ts'
import type { Log } from '../../telemetry/log.ts'
import { isNews, nextRow, type LedgerRow, type Load, type ToldLoad } from './ledger.ts'
import { LEASE_MS } from './lease.ts'
import { ROUND_MS } from './rounds.ts'

type Deps = { readonly database: Transactions; readonly log: Log }
type Keyed = LedgerRow & { readonly key: string }
type PodLoads = { readonly pod: number; readonly at: number; readonly loads: Readonly<Record<string, Load>> }

const EARLY_MS = 100 // so that a timer that fires early does not skip a round
const SWEEP_MS = 60_000

const LOADS = `
  select pod, (extract(epoch from at) * 1000)::float8 as at, loads from fleetline.downstream_loads
   where at > clock_timestamp() - ${LEASE_MS} * interval '1 ms'`

const ROWS = `
  select key, gen::float8, capacity, memory, shares, safe_share as safe,
         (extract(epoch from expires_at) * 1000)::float8 as "expiresMs"
    from fleetline.downstreams where key = any ($1)`

const NOW = 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs"'

// $1 term · $2 the leader's pod · $3 rows. Leaves pauses alone, because pods write them.
const PUBLISH = `
  insert into fleetline.downstreams as d (key, term, gen, capacity, memory, shares, safe_share, expires_at)
  select r.key, $1, r.gen, r.capacity, r.memory, r.shares, r.safe, clock_timestamp() + ${LEASE_MS} * interval '1 ms'
    from jsonb_to_recordset($3) as r(key text, gen bigint, capacity float8, memory jsonb, shares jsonb, safe int)
   where ${IS_LEADER}
   order by r.key
  on conflict (key) do update set term = excluded.term, gen = excluded.gen, capacity = excluded.capacity,
    memory = excluded.memory, shares = excluded.shares, safe_share = excluded.safe_share, expires_at = excluded.expires_at
   where d.term <= excluded.term and d.gen = excluded.gen - 1
  returning d.key`

// Deletes pods' reports after a minute, and what was learnt of a downstream after thirty days without use.
const SWEEP = [
  `delete from fleetline.downstream_loads d where at < clock_timestamp() - interval '1 minute'
      and ${IS_LEADER}`,
  `delete from fleetline.downstreams d where expires_at < clock_timestamp() - interval '30 days'
      and ${IS_LEADER}`,
]

export function throttleDuties({ database, log }: Deps): Duty[] {
  const share = async (term: Term) => {
    const work = async (query: Query) => publishRows(query, term, await readDueRows(query))
    const { written, wanted } = valueOf(await database.transaction(work), 'Shares could not be published')
    if (written < wanted) log.warn('shares were published by another leader', { data: wanted - written })
  }
  const sweep = async ({ term, pod }: Term) => {
    const work = async (query: Query) => {
      for (const text of SWEEP) await query(text, [term, pod])
    }
    valueOf(await database.transaction(work), 'Old downstreams could not be swept')
  }
  return [
    { name: 'shares', everyMs: ROUND_MS - EARLY_MS, run: share },
    { name: 'old downstreams', everyMs: SWEEP_MS, run: sweep },
  ]
}

/** Makes the rows to write now. The time is read first, so that everything else is at least as recent. */
export async function readDueRows(query: Query): Promise<Keyed[]> {
  const [now] = await query<{ nowMs: number }>(NOW)
  const heard = await query<PodLoads>(LOADS)
  const told = new Map<string, ToldLoad[]>()
  for (const { pod, at, loads } of heard)
    for (const [key, load] of Object.entries(loads)) {
      const all = told.get(key) ?? []
      told.set(key, all)
      all.push({ pod, at, load })
    }
  if (told.size === 0) return []
  const rows = await query<Keyed>(ROWS, [[...told.keys()]])
  const before = new Map(rows.map((row) => [row.key, row]))
  return [...told].flatMap(([key, loads]) => {
    const row = before.get(key)
    const next = nextRow(row, loads, now!.nowMs)
    return isNews(row, next, now!.nowMs) ? [{ key, ...next }] : []
  })
}

export async function publishRows(query: Query, { term, pod }: Term, rows: readonly Keyed[]) {
  const wanted = rows.length
  if (wanted === 0) return { written: 0, wanted }
  const written = (await query(PUBLISH, [term, pod, JSON.stringify(rows)])).length
  return { written, wanted }
}
