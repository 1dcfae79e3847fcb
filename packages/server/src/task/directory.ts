// Which tasks there are, those that live and those that ended, and the way back for one that is dead or held. A task is
// found by its id and its tenant: one of another tenant is one that does not exist. A move into the history is one commit,
// so that one statement over both sees a task once.
import {
  formatId,
  PAGE_LIMITS,
  parseId,
  TASK_NAME,
  TASK_STATES,
  type Id,
  type Task,
  type TaskState,
  type TaskSummary,
} from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Carry } from './claim.ts'
import { isWithin } from './draft.ts'
import { timelineOf } from './timeline.ts'

export type TaskFilter = {
  readonly state?: TaskState | undefined
  readonly queue?: string | undefined
  readonly machine?: string | undefined
  /** Only those made before this one. */
  readonly before?: string | undefined
  /** From 1 to 100; 50 unless it says otherwise. */
  readonly limit?: number | undefined
}

export type Directory = {
  find(tenant: number, id: string): Promise<Task | undefined>
  /** The newest first. */
  list(tenant: number, filter?: TaskFilter): Promise<TaskSummary[]>
  /** A task that is dead or held becomes ready, with all its attempts, where it stands or at a transition before: what
   *  is recorded from there on is forgotten. Undefined if there is no such task; in any other state it is refused. */
  retry(tenant: number, id: string, from?: string): Promise<Task | undefined>
}

type Deps = {
  readonly database: Transactions
  readonly cell: number
  /** There is something to claim. */
  readonly onReady: () => void
}

const ENDED: ReadonlySet<string> = new Set<TaskState>(['done', 'failed', 'cancelled'])
const USUAL = 50
const LIST_MS = 5_000 // a rare machine or state among millions is looked for no longer
const BEHIND_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

const TRACKED = `join fleetline.tracks k on k.id = t.track join fleetline.queues q on q.id = k.queue
  left join fleetline.shapes s on s.machine = k.machine and s.shape = k.shape`
const BOTH = `t.id, q.name as queue, k.machine, t.priority, t.attempt, t.spent, t.pod, t.created_at as "createdAt",
  t.claimed_at as "claimedAt", t.error ->> 'code' as code`
const OF_LIVE = `${BOTH}, t.state::text as state, t.reason, t.max_attempts as "maxAttempts", t.run_at as "runAt",
  null::timestamptz as "endedAt", case when k.shape <> '' then coalesce(s.names[t.position + 1], 'end') end as transition`
const OF_ENDED = `${BOTH}, t.outcome as state, null::text as reason, null::smallint as "maxAttempts",
  null::timestamptz as "runAt", t.settled_at as "endedAt", null::text as transition`
const WAY = `k.shape, coalesce(s.names, array['run']) as names, t.position, t.carry` // an older release writes no shape

const FIND = `
  select ${OF_LIVE}, ${WAY}, t.input, null::jsonb as result, null::text as via, t.error from fleetline.tasks t ${TRACKED}
   where t.id = $2 and t.tenant = $1
  union all
  select ${OF_ENDED}, ${WAY}, t.input, t.result, t.via, t.error from fleetline.task_history t ${TRACKED}
   where t.id = $2 and t.tenant = $1`

// Ids are in the order of time: each half is read backwards along its index on them, and no further than it must, before
// names are looked up. The state is a word of ours in the text, so that the planner may use the index of that state.
const half = (columns: string, table: string, condition: string) => `
  select ${columns}
    from (select * from fleetline.${table} t where t.tenant = $1 and t.id < $2 and ${condition}
           order by t.id desc limit $3) t ${TRACKED}`
const TRACKS = `
  select k.id from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = coalesce($1, q.name) and k.machine = coalesce($2, k.machine)`

function listOf(state: TaskState | undefined, isTracked: boolean): string {
  const tracked = isTracked ? 't.track = any ($4::int[])' : 'true'
  const live = half(OF_LIVE, 'tasks', state === undefined ? tracked : `${tracked} and t.state = '${state}'`)
  const ended = half(
    OF_ENDED,
    'task_history',
    state === undefined ? tracked : `${tracked} and t.outcome = '${state}'`,
  )
  if (state === undefined) return `(${live}) union all (${ended}) order by id desc limit $3`
  return `${ENDED.has(state) ? ended : live} order by t.id desc`
}

// $3 the position from which it goes on · $4 what is forgotten. Its error stays, its attempts are counted anew; `attempt`
// counts on, so that the fence of older attempts holds. Asked twice, the second finds none to change.
const RETRY = `
  update fleetline.tasks t
     set state = 'ready', spent = 0, reason = null, run_at = now(), place = nextval('fleetline.place'),
         position = $3, carry = t.carry - $4::text[]
   where t.id = $2 and t.tenant = $1 and t.state in ('dead', 'held') and t.position >= $3 returning t.id`

type Times = Record<'runAt' | 'claimedAt' | 'endedAt', Date | null> & { readonly createdAt: Date }
type Row = Omit<TaskSummary, 'id' | keyof Times> & Times & { readonly id: string }
type Way = { readonly names: readonly string[]; readonly position: number; readonly carry: Carry | null }
type Whole = Row & Way & Pick<Task, 'shape' | 'input' | 'result' | 'via' | 'error'>

export function createDirectory({ database, cell, onReady }: Deps): Directory {
  const uuidOf = (text: string) => {
    const id = parseId('task', text)
    return id?.cell === cell ? id.uuid : undefined
  }
  const summaryOf = (row: Row): TaskSummary => ({
    id: idOf(cell, row.id),
    queue: row.queue,
    machine: row.machine,
    state: row.state,
    reason: row.reason,
    transition: row.transition,
    priority: row.priority,
    attempt: row.attempt,
    spent: row.spent,
    maxAttempts: row.maxAttempts,
    pod: row.pod,
    createdAt: row.createdAt.toISOString(),
    runAt: row.runAt && row.runAt.toISOString(),
    claimedAt: row.claimedAt && row.claimedAt.toISOString(),
    endedAt: row.endedAt && row.endedAt.toISOString(),
    code: row.code,
  })
  const taskOf = (row: Whole): Task => ({
    ...summaryOf(row),
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
    list: async (tenant, { state, queue = null, machine = null, before, limit = USUAL } = {}) => {
      if (!isWithin(limit, 1, PAGE_LIMITS.items))
        throw new Rejected('invalid', `limit: must be from 1 to ${PAGE_LIMITS.items}`)
      if (state !== undefined && !TASK_STATES.includes(state))
        throw new Rejected('invalid', 'state: is none of a task')
      const end = before === undefined ? BEHIND_ALL : uuidOf(before)
      if (end === undefined) throw new Rejected('invalid', 'before: is not the id of a task here')
      for (const [field, name] of Object.entries({ queue, machine }))
        if (name !== null && !TASK_NAME.test(name))
          throw new Rejected('invalid', `${field}: must match ${TASK_NAME.source}`)
      const outcome = await database.transaction(
        async (query) => {
          const tracks =
            queue === null && machine === null ? undefined : await tracksOf(query, queue, machine)
          if (tracks?.length === 0) return []
          const values = [tenant, end, limit, ...(tracks ? [tracks] : [])]
          return query<Row>(listOf(state, tracks !== undefined), values)
        },
        { access: 'read', deadlineMs: LIST_MS },
      )
      return valueOf(outcome, 'The tasks cannot be read in time: ask for a state, or for fewer').map(
        summaryOf,
      )
    },
    retry: async (tenant, id, from) => {
      const uuid = uuidOf(id)
      if (uuid === undefined) return undefined
      const outcome = await database.transaction(async (query) => {
        const row = await rowOf(query, tenant, uuid)
        if (!row) return { isRetried: false, task: undefined }
        const position = from === undefined ? row.position : positionOf(row, from)
        const changed = await query(RETRY, [tenant, uuid, position, row.names.slice(position)])
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

async function tracksOf(query: Query, queue: string | null, machine: string | null): Promise<number[]> {
  return (await query<{ id: number }>(TRACKS, [queue, machine])).map(({ id }) => id)
}

/** Refuses a transition that the task has not come to. */
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

function idOf(cell: number, uuid: string): Id<'task'> {
  return formatId('task', cell, uuid)
}
