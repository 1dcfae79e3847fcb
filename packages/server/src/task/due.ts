// Makes waiting tasks ready when their time has come, by the database's clock, and puts them at the end of the queue. Each pod
// that runs tasks does this for all pods. Suspects stay waiting: a claim takes them directly.
import type { Query } from '../store/database.ts'

const MOST = 1_000

const PROMOTE = `
  with due as (
    select ctid as tid from fleetline.tasks
     where state = 'waiting' and reason is distinct from 'suspect' and run_at <= now()
     order by run_at limit $1 for update skip locked)
  update fleetline.tasks t set state = 'ready', place = nextval('fleetline.place')
   where t.ctid = any (array(select tid from due)) returning t.id`

/** Returns how many became ready, and whether those were all. */
export async function promote(query: Query): Promise<{ readonly count: number; readonly isAll: boolean }> {
  const { length: count } = await query(PROMOTE, [MOST])
  return { count, isAll: count < MOST }
}
