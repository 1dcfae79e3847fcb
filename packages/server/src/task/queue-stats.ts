// Measures the queue for the person on call: since when the first task in each queue could have run, and how many tasks are
// dead or held. It reads only along indexes that contain little else, however large the table is.
import type { Query } from '../store/database.ts'

export type QueueStats = {
  readonly queue: string
  readonly machine: string
  /** 0 if no task could run. */
  readonly oldestMs: number
  readonly dead: number
  /** How many, by reason: `hold`, `shape`. */
  readonly held: Readonly<Record<string, number>>
}

// The first ready task of a track and priority is not always the oldest, but close to it: places are drawn when tasks become
// ready. Two kinds of waiting tasks count, too. Suspects are never ready. And if no pod runs tasks, nobody makes due tasks
// ready: of those, the first thousand are read.
const QUEUE_STATS = `
  with dead as (select track, count(*) as count from fleetline.tasks where state = 'dead' group by track),
  held as (
    select queue, machine, jsonb_object_agg(reason, count) as held
      from (select k.queue, k.machine, t.reason, count(*)
              from fleetline.tasks t join fleetline.tracks k on k.id = t.track
             where t.state = 'held' group by 1, 2, 3) h
     group by 1, 2),
  due as (
    select track, min(run_at) as since
      from (select track, run_at from fleetline.tasks
             where state = 'waiting' and reason is distinct from 'suspect' and run_at <= now() order by run_at limit 1000) t
     group by track)
  select q.name as queue, k.machine, coalesce(sum(d.count), 0)::float8 as dead, coalesce(h.held, '{}') as held,
         greatest(0, coalesce(extract(epoch from clock_timestamp() - min(least(f.since, s.since, u.since))) * 1000, 0))::float8
           as "oldestMs"
    from fleetline.tracks k
    join fleetline.queues q on q.id = k.queue
    left join dead d on d.track = k.id
    left join due u on u.track = k.id
    left join held h on h.queue = k.queue and h.machine = k.machine
    left join lateral (
      select run_at as since from fleetline.tasks t
       where t.track = k.id and t.state = 'waiting' and t.reason = 'suspect' and t.run_at <= now()
       order by t.run_at limit 1) s on true
   cross join lateral (
     select min(r.since) as since
       from generate_series(0, 7) p(priority)
      cross join lateral (
        select greatest(t.run_at, t.created_at) as since from fleetline.tasks t
         where t.track = k.id and t.priority = p.priority and t.state = 'ready' order by t.place limit 1) r) f
   group by q.name, k.machine, h.held`

/** One row for each machine that a pod has ever run, with all its shapes together. */
export async function readQueueStats(query: Query): Promise<QueueStats[]> {
  return query<QueueStats>(QUEUE_STATS)
}
