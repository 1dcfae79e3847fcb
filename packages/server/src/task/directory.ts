// Finds and lists tasks, live and ended, and retries those that are dead or held. A task is found by its id and its tenant: to
// a tenant, a task of another tenant does not exist. A move into the history is one commit, so one statement over
// both tables sees a task once.
import { parseId, type Task } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Carry } from './claim.ts'
import { createTaskLister, type TaskFilter, type TaskPage } from './list.ts'
import { OF_ENDED, OF_LIVE, summaryOf, TRACKED, type TaskRow } from './summary.ts'
import { timelineOf } from './timeline.ts'

export type TaskDirectory = {
  find(tenant: number, id: string): Promise<Task | undefined>
  /** Newest first. */
  list(tenant: number, filter?: TaskFilter): Promise<TaskPage>
  /** Makes a dead or held task ready, with all its attempts, at its current transition or at an earlier one (`from`). What was
   *  recorded from there on is deleted. Undefined if there is no such task. A task in any other state is rejected. */
  retry(tenant: number, id: string, from?: string): Promise<Task | undefined>
}

type Deps = {
  readonly database: Transactions
  readonly cell: number
  /** Called when there is something to claim. */
  readonly onReady: () => void
}

const WAY = `k.shape, coalesce(s.names, array['run']) as names, t.position, t.carry` // an older release writes no shape

const FIND = `
  select ${OF_LIVE}, ${WAY}, t.input, null::jsonb as result, null::text as via, t.error from fleetline.tasks t ${TRACKED}
   where t.tenant = $1 and t.id = $2
  union all
  select ${OF_ENDED}, ${WAY}, t.input, t.result, t.via, t.error from fleetline.task_history t ${TRACKED}
   where t.tenant = $1 and t.id = $2`

// $1 the position at which it resumes · $2 the transitions whose outputs are deleted. The error stays, and attempts are counted
// from 0 again. `attempt` keeps growing, so older attempts stay fenced. A second call finds no row to change.
const RETRY = `
  update fleetline.tasks t
     set state = 'ready', spent = 0, reason = null, run_at = now(), place = nextval('fleetline.place'),
         position = $1, carry = t.carry - $2::text[]
   where t.tenant = $3 and t.id = $4 and t.state in ('dead', 'held') and t.position >= $1 returning t.id`

type Way = { readonly names: readonly string[]; readonly position: number; readonly carry: Carry | null }
type Whole = TaskRow & Way & Pick<Task, 'shape' | 'input' | 'result' | 'via' | 'error'>

export function createDirectory({ database, cell, onReady }: Deps): TaskDirectory {
  const uuidOf = (text: string) => {
    const id = parseId('task', text)
    return id?.cell === cell ? id.uuid : undefined
  }
  const taskOf = (row: Whole): Task => ({
    ...summaryOf(cell, row),
    shape: row.shape,
    timeline: timelineOf(row),
    input: row.input,
    result: row.result,
    via: row.via,
    error: row.error,
  })
  const rowOf = async (query: Query, tenant: number, uuid: string) =>
    (await query<Whole>(FIND, [tenant, uuid]))[0]
  const find = async (query: Query, tenant: number, uuid: string) => {
    const row = await rowOf(query, tenant, uuid)
    return row && taskOf(row)
  }
  return {
    find: async (tenant, id) => {
      const uuid = uuidOf(id)
      if (uuid === undefined) return undefined
      return valueOf(
        await database.transaction((query) => find(query, tenant, uuid), { access: 'read' }),
        'The task cannot be read',
      )
    },
    list: createTaskLister({ database, cell }),
    retry: async (tenant, id, from) => {
      const uuid = uuidOf(id)
      if (uuid === undefined) return undefined
      const outcome = await database.transaction(async (query) => {
        const row = await rowOf(query, tenant, uuid)
        if (!row) return { isRetried: false, task: undefined }
        const position = from === undefined ? row.position : positionOf(row, from)
        const changed = await query(RETRY, [position, row.names.slice(position), tenant, uuid])
        return { isRetried: changed.length > 0, task: await find(query, tenant, uuid) }
      })
      const { isRetried, task } = valueOf(outcome, 'Whether the task was made ready is not known')
      if (isRetried) onReady()
      else if (task)
        throw new Rejected('conflict', `The task is ${task.state}: only one that is dead or held is retried`)
      return task
    },
  }
}

/** Rejects a transition that the task has not reached. */
function positionOf({ names, position }: Way, from: string): number {
  const index = names.indexOf(from)
  if (index < 0) throw new Rejected('invalid', `from: must be one of ${names.join(', ')}`)
  if (index > position)
    throw new Rejected(
      'conflict',
      `The task has not come to ${from} yet: it stands at ${names[position] ?? 'end'}`,
    )
  return index
}
