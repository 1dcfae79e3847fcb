// Tasks whose time has come, by the clock of the database, become ready, at the end of the line. Any pod that runs
// tasks does it for all.
// Suspects do not: a claim takes them from where they wait.
import type { Query } from '../store/database.ts'

const MOST = 1_000

const PROMOTE = `
  with due as (
    select ctid as tid from fleetline.tasks
     where state = 'waiting' and reason is distinct from 'suspect' and run_at <= now()
     order by run_at limit $1 for update skip locked)
  update fleetline.tasks t set state = 'ready', place = nextval('fleetline.place')
   where t.ctid = any (array(select tid from due)) returning t.id`

/** How many there were, and whether there may be more. */
export async function promote(query: Query): Promise<{ readonly count: number; readonly isAll: boolean }> {
  const { length: count } = await query(PROMOTE, [MOST])
  return { count, isAll: count < MOST }
}
