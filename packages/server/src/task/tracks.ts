// Which queues and tracks there are. A pod writes those that it can run when it starts, on a transaction of its own: in a
// caller's transaction their unique index would block others until that commits.
import { valueOf, type Database, type Query } from '../store/database.ts'

/** What a pod can run. The shape of a plain task is empty. */
export type Runnable = {
  readonly queue: string
  readonly machine: string
  readonly shape: string
  readonly maxAttempts: number
}

const ADD_QUEUES = `
  insert into fleetline.queues (name) select distinct unnest($1::text[]) order by 1 on conflict do nothing`

// In one order on every pod, so that two that start together never wait for each other in a ring. What is there already
// is left as it is, unless the number of attempts changed: a restart writes nothing.
const ADD_TRACKS = `
  insert into fleetline.tracks as k (queue, machine, shape, max_attempts)
  select q.id, r.machine, r.shape, r.max_attempts
    from unnest($1::text[], $2::text[], $3::text[], $4::smallint[]) r(queue, machine, shape, max_attempts)
    join fleetline.queues q on q.name = r.queue
   order by 1, 2, 3
  on conflict (queue, machine, shape) do update set max_attempts = excluded.max_attempts
   where k.max_attempts <> excluded.max_attempts`

const FIND = `
  select k.id, r.n::int as n
    from unnest($1::text[], $2::text[], $3::text[]) with ordinality r(queue, machine, shape, n)
    join fleetline.queues q on q.name = r.queue
    join fleetline.tracks k on k.queue = q.id and k.machine = r.machine and k.shape = r.shape
   order by r.n`

/** The numbers of the tracks, in the order of what was given. */
export async function register(
  database: Pick<Database, 'transaction'>,
  runnables: readonly Runnable[],
): Promise<number[]> {
  const queues = runnables.map(({ queue }) => queue)
  const names = [queues, runnables.map(({ machine }) => machine), runnables.map(({ shape }) => shape)]
  const outcome = await database.transaction(async (query: Query) => {
    await query(ADD_QUEUES, [queues])
    await query(ADD_TRACKS, [...names, runnables.map(({ maxAttempts }) => maxAttempts)])
    return query<{ id: number }>(FIND, names)
  })
  return valueOf(outcome, 'The tracks could not be written').map(({ id }) => id)
}
