// Agents in the code of pods. Each has its own track of turns, and the pods that have the agent claim from it. So the rows of
// pods say which pods have which agent.
import { TASK_NAME } from '@fleetline/protocol'
import { valueOf, type Transactions } from '../store/database.ts'

/** The shape of the track of turns that an agent in code answers. `fleetline.turn_track` builds the same string. */
export function shapeOf(agent: string): string {
  return `code:${agent}`
}

// Rows of ended pods are kept for an hour, so that an agent is not unknown between two releases of its pods.
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
