// A page of tasks, the newest first. However few of them match, a page looks at so many rows and no more: it then says how
// far it came, and the next page goes on from there. Ids are in the order of time: those that live and those that ended are
// read backwards along their index on them, before names are looked up.
import {
  formatId,
  PAGE_LIMITS,
  parseId,
  TASK_NAME,
  TASK_STATES,
  type Id,
  type TaskState,
  type TaskSummary,
} from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import { isWithin } from './draft.ts'
import { OF_ENDED, OF_LIVE, summaryOf, TRACKED, type Row } from './summary.ts'

export type TaskFilter = {
  readonly state?: TaskState | undefined
  readonly queue?: string | undefined
  readonly machine?: string | undefined
  /** Only those made before this one. */
  readonly before?: string | undefined
  /** From 1 to 100; 50 unless it says otherwise. */
  readonly limit?: number | undefined
}
export type TaskPage = {
  readonly tasks: readonly TaskSummary[]
  /** Where to go on, as `before`; null if there are no more. A page that comes to its end early may be empty. */
  readonly next: Id<'task'> | null
}
type Deps = { readonly database: Transactions; readonly cell: number }

const USUAL = 50
const LIST_MS = 5_000
const MOST_LOOKED_AT = 20_000 // of those that live, and of those that ended; some 50 ms
const BEHIND_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

const TRACKS = `
  select k.id from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = coalesce($1, q.name) and k.machine = coalesce($2, k.machine)`

type Half = { readonly table: string; readonly columns: string; readonly word: 'state' | 'outcome' }
const LIVE: Half = { table: 'tasks', columns: OF_LIVE, word: 'state' }
const ENDED: Half = { table: 'task_history', columns: OF_ENDED, word: 'outcome' }
const ENDINGS: ReadonlySet<string> = new Set<TaskState>(['done', 'failed', 'cancelled'])
/** These have an index that holds little else: no other row is looked at. */
const INDEXED: ReadonlySet<string> = new Set<TaskState>(['dead', 'held', 'claimed', 'failed'])

// $1 tenant · $2 before · $3 how many · $4 tracks. The state is a word of ours in the text, so that the planner may use the
// index of that state. Where a half came to its bound, it did not see what is older: nothing older is shown of the other
// half either. How far it came is only looked for if it found too few.
function listOf(state: TaskState | undefined, isTracked: boolean): string {
  const halves = state === undefined ? [LIVE, ENDED] : ENDINGS.has(state) ? [ENDED] : [LIVE]
  const parts = halves.map(({ table, columns, word }) => {
    const isState = state === undefined ? 'true' : `t.${word} = '${state}'`
    const looked = `fleetline.${table} t where t.id < $2 and ${
      state !== undefined && INDEXED.has(state) ? `t.tenant = $1 and ${isState}` : 'true'
    } order by t.id desc`
    return {
      found: `${table}_found as materialized (
        select ${columns}
          from (select * from (select * from ${looked} limit ${MOST_LOOKED_AT}) t
                 where t.tenant = $1 and ${isState} and ${isTracked ? 't.track = any ($4::int[])' : 'true'}
                 order by t.id desc limit $3) t ${TRACKED})`,
      end: `case when (select count(*) from ${table}_found) < $3
                 then (select t.id from ${looked} offset ${MOST_LOOKED_AT - 1} limit 1) end`,
      all: `select * from ${table}_found`,
    }
  })
  return `
    with ${parts.map(({ found }) => found).join(', ')}
    select e.edge, f.*
      from (select greatest(${parts.map(({ end }) => end).join(', ')}) as edge) e
      left join (${parts.map(({ all }) => all).join(' union all ')}) f on true
     order by f.id desc limit $3`
}

type Found = { readonly edge: string | null } & (Row | { readonly id: null })

export function createList({ database, cell }: Deps) {
  return async (tenant: number, filter: TaskFilter = {}): Promise<TaskPage> => {
    const { state, queue = null, machine = null, limit = USUAL } = filter
    refuseWrong(filter, limit)
    const before = beforeOf(filter, cell)
    const outcome = await database.transaction(
      async (query) => {
        const tracks = queue === null && machine === null ? undefined : await tracksOf(query, queue, machine)
        if (tracks?.length === 0) return []
        const values = [tenant, before, limit + 1, ...(tracks ? [tracks] : [])]
        return query<Found>(listOf(state, tracks !== undefined), values)
      },
      { access: 'read', deadlineMs: LIST_MS },
    )
    const found = valueOf(outcome, 'The tasks cannot be read in time: ask for a state, or for fewer')
    return pageOf(found, { before, limit, cell })
  }
}

function pageOf(
  found: readonly Found[],
  { before, limit, cell }: { readonly before: string; readonly limit: number; readonly cell: number },
): TaskPage {
  const edge = endOf(found[0]?.edge ?? null, before)
  const rows = found.filter((row): row is Found & Row => row.id !== null && (edge === null || row.id >= edge))
  const tasks = rows.slice(0, limit).map((row) => summaryOf(cell, row))
  if (rows.length > limit) return { tasks, next: tasks.at(-1)!.id }
  return { tasks, next: edge === null ? null : formatId('task', cell, edge) }
}

/** The last row that was looked at may be another tenant's: what is random in its id is not told. */
function endOf(edge: string | null, before: string): string | null {
  const end = edge && `${edge.slice(0, 19)}bfff-ffffffffffff`
  return end !== null && end < before ? end : edge
}

function refuseWrong({ state, queue, machine }: TaskFilter, limit: number): void {
  if (!isWithin(limit, 1, PAGE_LIMITS.items))
    throw new Rejected('invalid', `limit: must be from 1 to ${PAGE_LIMITS.items}`)
  if (state !== undefined && !TASK_STATES.includes(state))
    throw new Rejected('invalid', 'state: is none of a task')
  for (const [field, name] of Object.entries({ queue, machine }))
    if (name !== undefined && !TASK_NAME.test(name))
      throw new Rejected('invalid', `${field}: must match ${TASK_NAME.source}`)
}

function beforeOf({ before }: TaskFilter, cell: number): string {
  if (before === undefined) return BEHIND_ALL
  const id = parseId('task', before)
  if (id?.cell !== cell) throw new Rejected('invalid', 'before: is not the id of a task here')
  return id.uuid
}

async function tracksOf(query: Query, queue: string | null, machine: string | null): Promise<number[]> {
  return (await query<{ id: number }>(TRACKS, [queue, machine])).map(({ id }) => id)
}
