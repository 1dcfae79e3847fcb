// Counts the tasks at each transition of every machine, for operators, over all tenants. It counts on request, in a time that
// does not grow with the table:
//
//   up to 10,000 each of waiting, claimed, held and dead; up to 1,000 ready tasks of a track       counted
//   more                                                                                          estimated from 2,000 pages
import { valueOf, type Transactions } from '../store/database.ts'
import { PLAIN } from './plan.ts'

export type Population = {
  readonly queue: string
  readonly machine: string
  readonly shape: string
  /** How many live pods run this shape. */
  readonly pods: number
  /** Some of the numbers below come from a sample, which may have missed rare values. */
  readonly estimated: boolean
  readonly transitions: readonly TransitionCount[]
}
type TransitionCount = {
  readonly name: string
  readonly ready: number
  readonly waiting: number
  readonly claimed: number
  readonly held: number
  readonly dead: number
  /** Why some are held. */
  readonly reasons: readonly string[]
  /** The age of the oldest task; 0 if there is none. */
  readonly oldestMs: number
}

const READ_MS = 10_000
const MOST = 10_000
const MOST_READY = 1_000
const PAGES = 2_000

/** Reads through the index of a state, one row more than is counted: that row shows that there are more. */
const selectFirst = (condition: string, order: string, most: number) => `
  (select t.track, t.position, t.state, t.reason, t.created_at from fleetline.tasks t
    where ${condition} order by ${order} limit ${most + 1})`

// The sample takes whole pages. A table of up to 2,000 pages is read completely.
const SHARE = `least(1, ${PAGES} / greatest(1, pg_relation_size('fleetline.tasks') / current_setting('block_size')::float8))`

// few: the first rows of each state. many: the states that have more rows; for ready tasks, by track. The sample is read only if
// there are such states. A result is never below what was counted, whatever the sample says.
const STANDS = `
  few as (
    select r.* from known k cross join lateral ${selectFirst("t.track = k.id and t.state = 'ready'", 't.priority desc, t.place', MOST_READY)} r
    union all ${selectFirst(`t.state = 'waiting' and t.reason is distinct from 'suspect'`, 't.run_at', MOST)}
    union all ${selectFirst(`t.state = 'waiting' and t.reason = 'suspect'`, 't.track, t.run_at', MOST)}
    union all ${selectFirst(`t.state = 'claimed'`, 't.pod', MOST)}
    union all ${selectFirst(`t.state = 'held'`, 't.tenant, t.id', MOST)}
    union all ${selectFirst(`t.state = 'dead'`, 't.tenant, t.id', MOST)}),
  many as materialized (
    select state, case state when 'ready' then track else 0 end as line
      from few group by 1, 2 having count(*) > case state when 'ready' then ${MOST_READY} else ${MOST} end),
  sampled as (
    select t.track, t.position, t.state, t.reason, t.created_at
      from fleetline.tasks t tablesample system (100 * ${SHARE})
     where exists (select from many)
       and exists (select from many m where m.state = t.state and m.line = case t.state when 'ready' then t.track else 0 end)),
  counts as (
    select track, position, state, reason, max(n) as n, min(since) as since
      from (select track, position, state, case state when 'held' then reason end as reason, count(*) as n, min(created_at) as since
              from few group by 1, 2, 3, 4
            union all
            select track, position, state, case state when 'held' then reason end, round(count(*) / (select ${SHARE})),
                   min(created_at)
              from sampled group by 1, 2, 3, 4) c
     group by 1, 2, 3, 4),
  stands as (
    select track, position, sum(n) filter (where state = 'ready') as ready, sum(n) filter (where state = 'waiting') as waiting,
           sum(n) filter (where state = 'claimed') as claimed, sum(n) filter (where state = 'held') as held,
           sum(n) filter (where state = 'dead') as dead, array_agg(distinct reason) filter (where state = 'held') as reasons,
           min(since) as since
      from counts group by track, position)`

// Leaves out shapes without tasks that no pod runs. A pod of an older release runs tasks with one handler, and writes neither
// tracks nor names.
const POPULATION = `
  with known as (
    select k.id, q.name as queue, k.machine, k.shape, coalesce(s.names, array['${PLAIN.transition}']) as names,
           (select count(*) from fleetline.pods p
             where p.state = 'live' and (k.id = any (p.tracks) or p.tracks is null and k.shape = '')) as pods
      from fleetline.tracks k join fleetline.queues q on q.id = k.queue
      left join fleetline.shapes s on s.machine = k.machine and s.shape = k.shape), ${STANDS}
  select k.queue, k.machine, k.shape, k.pods::int as pods,
         ${SHARE} < 1 and exists (select from many m where m.line in (0, k.id)) as estimated,
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

export async function readPopulation(database: Transactions): Promise<Population[]> {
  const outcome = await database.transaction((query) => query<Population>(POPULATION), {
    access: 'read',
    deadlineMs: READ_MS,
  })
  return valueOf(outcome, 'The machines cannot be read in time')
}
