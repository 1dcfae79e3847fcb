// Tasks of Fleetline itself, on tracks that a migration has made, so that they are there before any pod: written as part of
// a transaction that writes more, and run by who knows what else ends with them.
import { Bug } from '../errors.ts'
import type { Query } from '../store/database.ts'
import type { Machine } from './machine.ts'

/** `maxAttempts` is above what anybody may ask for: only who wrote the task ends it, and nobody enqueues it by name. */
export type OwnTrack = Pick<Machine, 'name' | 'queue' | 'shape' | 'transitions' | 'maxAttempts'> & {
  readonly priority: number
}
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
  { queue, name, shape, priority }: OwnTrack,
  tasks: readonly OwnTask[],
): Promise<void> {
  const rows = await query(OWN_TASKS, [
    queue,
    name,
    shape,
    priority,
    tasks.map(({ id }) => id),
    tasks.map(({ tenant }) => tenant),
    tasks.map(({ input }) => input),
  ])
  if (rows.length !== tasks.length) throw new Bug(`There is no track ${queue}/${name}/${shape}`)
}
