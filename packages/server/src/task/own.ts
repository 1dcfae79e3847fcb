// Tasks of Fleetline itself, on tracks that a migration has made, so that they are there before any pod: written as part of
// a transaction that writes more, and run by who knows what else ends with them.
import { Bug } from '../errors.ts'
import type { Query } from '../store/database.ts'
import type { Runner } from './attempt.ts'

/** Its shape is not empty, as that of a plain task is: nobody enqueues into it by name. */
export type OwnTrack = {
  readonly queue: string
  readonly machine: string
  readonly shape: string
  readonly maxAttempts: number
  readonly priority: number
}
export type OwnRunner = { readonly track: OwnTrack; readonly run: Runner['run'] }
export type OwnTask = { readonly id: string; readonly tenant: number; readonly input: string }

export const OWN_TASKS = `
  insert into fleetline.tasks (id, tenant, track, priority, max_attempts, input, state)
  select t.id, t.tenant, k.id, $4, k.max_attempts, t.input::jsonb, 'ready'
    from unnest($5::uuid[], $6::int[], $7::text[]) t(id, tenant, input)
    join fleetline.queues q on q.name = $1
    join fleetline.tracks k on k.queue = q.id and k.machine = $2 and k.shape = $3
  returning id`

export async function insertOwn(
  query: Query,
  { queue, machine, shape, priority }: OwnTrack,
  tasks: readonly OwnTask[],
): Promise<void> {
  const rows = await query(OWN_TASKS, [
    queue,
    machine,
    shape,
    priority,
    tasks.map(({ id }) => id),
    tasks.map(({ tenant }) => tenant),
    tasks.map(({ input }) => input),
  ])
  if (rows.length !== tasks.length) throw new Bug(`There is no track ${queue}/${machine}/${shape}`)
}
