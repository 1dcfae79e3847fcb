// How many tasks stand where, in every machine: for operators, over all tenants. Read whole when somebody asks, within a
// limit of time.
import { valueOf, type Transactions } from '../store/database.ts'
import { PLAIN } from './plan.ts'

export type Population = {
  readonly queue: string
  readonly machine: string
  readonly shape: string
  /** How many live pods run this shape. */
  readonly pods: number
  readonly transitions: readonly Standing[]
}
type Standing = {
  readonly name: string
  readonly ready: number
  readonly waiting: number
  readonly claimed: number
  readonly held: number
  readonly dead: number
  /** Why some are held. */
  readonly reasons: readonly string[]
  /** Since the oldest of them was made; 0 if there is none. */
  readonly oldestMs: number
}

const READ_MS = 10_000

// A shape without tasks that no pod runs is history. A pod of an older release runs tasks of one handler, and says neither.
const POPULATION = `
  with known as (
    select k.id, q.name as queue, k.machine, k.shape, coalesce(s.names, array['${PLAIN.transition}']) as names,
           (select count(*) from fleetline.pods p
             where p.state = 'live' and (k.id = any (p.tracks) or p.tracks is null and k.shape = '')) as pods
      from fleetline.tracks k join fleetline.queues q on q.id = k.queue
      left join fleetline.shapes s on s.machine = k.machine and s.shape = k.shape),
  stands as (
    select track, position, count(*) filter (where state = 'ready') as ready,
           count(*) filter (where state = 'waiting') as waiting, count(*) filter (where state = 'claimed') as claimed,
           count(*) filter (where state = 'held') as held, count(*) filter (where state = 'dead') as dead,
           array_agg(distinct reason) filter (where state = 'held') as reasons, min(created_at) as since
      from fleetline.tasks group by track, position)
  select k.queue, k.machine, k.shape, k.pods::int as pods,
         jsonb_agg(jsonb_build_object(
           'name', n.name, 'ready', coalesce(t.ready, 0), 'waiting', coalesce(t.waiting, 0),
           'claimed', coalesce(t.claimed, 0), 'held', coalesce(t.held, 0), 'dead', coalesce(t.dead, 0),
           'reasons', coalesce(t.reasons, '{}'),
           'oldestMs', greatest(0, coalesce(round(extract(epoch from clock_timestamp() - t.since) * 1000), 0)))
           order by n.index) as transitions
    from known k
   cross join unnest(k.names || case when exists (select from stands a where a.track = k.id and a.position >= cardinality(k.names))
                                     then array['end'] end) with ordinality n(name, index)
    left join stands t on t.track = k.id and t.position = n.index - 1
   where k.pods > 0 or exists (select from stands a where a.track = k.id)
   group by k.id, k.queue, k.machine, k.shape, k.pods
   order by k.queue, k.machine, k.id desc`

export async function population(database: Transactions): Promise<Population[]> {
  const outcome = await database.transaction((query) => query<Population>(POPULATION), {
    access: 'read',
    deadlineMs: READ_MS,
  })
  return valueOf(outcome, 'The machines cannot be read in time')
}
