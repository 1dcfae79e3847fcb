// Downstreams as operators see them: what the fleet has learnt, from their rows, and which pods use them, from the reports of
// the last lease time. Read whole on request, under a time limit. Agents' own downstreams come last, because tenants make many.
import { valueOf, type Transactions } from '../../store/database.ts'
import { OF_AGENTS } from '../definition.ts'
import { LEASE_MS } from './lease.ts'

export type DownstreamStanding = {
  readonly key: string
  /** How many calls may be in flight from all pods. Null until a provider has refused calls or slowed down. */
  readonly capacity: number | null
  /** The mean of the last second. */
  readonly inFlight: number
  readonly want: number
  readonly pausedUntil: string | null
  /** Since shares were last published. Null if they never were. */
  readonly ageMs: number | null
  readonly pods: readonly Share[]
}
type Share = {
  readonly pod: string
  /** Null if the row does not name the pod yet (it has 1), or if nothing is learnt (it has what its own rules allow). */
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
