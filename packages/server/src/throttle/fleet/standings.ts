// Downstreams as operators see them: what the fleet has learnt, from their rows; who uses them, from what pods told within
// the time of a lease. Read whole when somebody asks, within a limit of time: agents' own last, of which tenants make many.
import { valueOf, type Transactions } from '../../store/database.ts'
import { OF_AGENTS } from '../definition.ts'
import { LEASE_MS } from './lease.ts'

export type DownstreamStanding = {
  readonly key: string
  /** How much may be in flight, over all pods; null until a provider has refused, or slowed down. */
  readonly capacity: number | null
  /** Of the last second, the mean. */
  readonly inFlight: number
  readonly want: number
  readonly pausedUntil: string | null
  /** Since the last share was published; null: none was. */
  readonly ageMs: number | null
  readonly pods: readonly Share[]
}
type Share = {
  readonly pod: string
  /** Null: it is not named yet, and has 1; or nothing is learnt, and it has what its own rules let it. */
  readonly share: number | null
  readonly inFlight: number
  readonly want: number
}

const MOST = 1_000
const READ_MS = 10_000

const STANDINGS = `
  with told as (
    select k.key, jsonb_agg(jsonb_build_object('pod', coalesce(p.name, l.pod::text),
             'share', case when d.capacity is not null then d.shares -> l.pod::text -> 'share' end,
             'inFlight', k.load -> 'inFlight', 'want', k.load -> 'want') order by l.pod) as pods,
           sum((k.load ->> 'inFlight')::numeric)::float8 as in_flight, sum((k.load ->> 'want')::numeric)::float8 as want
      from fleetline.downstream_loads l
     cross join jsonb_each(l.loads) k(key, load)
      left join fleetline.pods p on p.id = l.pod
      left join fleetline.downstreams d on d.key = k.key
     where l.at > clock_timestamp() - ${LEASE_MS} * interval '1 ms'
     group by k.key)
  select key, floor(d.capacity) as capacity, coalesce(t.in_flight, 0) as "inFlight", coalesce(t.want, 0) as want,
         case when d.pause_until > clock_timestamp() then d.pause_until end as "pausedUntil",
         case when d.expires_at is not null then
           greatest(0, round(extract(epoch from clock_timestamp() - d.expires_at) * 1000) + ${LEASE_MS}) end::float8 as "ageMs",
         coalesce(t.pods, '[]') as pods
    from fleetline.downstreams d full join told t using (key)
   order by starts_with(key, '${OF_AGENTS}'), key limit ${MOST}`

type StandingRow = Omit<DownstreamStanding, 'pausedUntil'> & { readonly pausedUntil: Date | null }

export async function readStandings(database: Transactions): Promise<DownstreamStanding[]> {
  const outcome = await database.transaction((query) => query<StandingRow>(STANDINGS), {
    access: 'read',
    deadlineMs: READ_MS,
  })
  return valueOf(outcome, 'The downstreams cannot be read in time').map((row) => ({
    ...row,
    pausedUntil: row.pausedUntil && row.pausedUntil.toISOString(),
  }))
}
