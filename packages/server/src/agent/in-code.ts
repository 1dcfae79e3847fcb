// Agents in the code of any pod. Each has a track of turns of its own, which is claimed by the pods that have it: so the rows
// of pods say who has which.
import { TASK_NAME } from '@fleetline/protocol'
import { valueOf, type Transactions } from '../store/database.ts'

/** Of the track of turns that an agent in code answers. `fleetline.turn_track` makes the same. */
export function shapeOf(agent: string): string {
  return `code:${agent}`
}

// Pods that have ended are kept for an hour: between two releases of its pods an agent is not unknown.
const IN_CODE = `
  select bool_or(p.state = 'live') as "isLive"
    from fleetline.tracks k join fleetline.queues q on q.id = k.queue
    join fleetline.pods p on k.id = any (p.tracks)
   where q.name = 'turns' and k.machine = 'turn' and k.shape = $1
  having count(*) > 0`

/** Whether pods have it in their code now, or had it within the last hour. */
export async function findInCode(
  database: Transactions,
  agent: string,
): Promise<'live' | 'lately' | 'never'> {
  if (!TASK_NAME.test(agent)) return 'never'
  const outcome = await database.transaction(
    (query) => query<{ isLive: boolean }>(IN_CODE, [shapeOf(agent)]),
    { access: 'read' },
  )
  const [row] = valueOf(outcome, 'The agents of the pods cannot be read')
  return row ? (row.isLive ? 'live' : 'lately') : 'never'
}
