// Lists tasks by page, newest first. A page reads a limited number of rows, even if few of them match; `next` says where the
// next page starts. Ids are in order of time, so both tables are read backwards by their index on the id. Names are looked up
// afterwards.
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
import { OF_ENDED, OF_LIVE, summaryOf, TRACKED, type TaskRow } from './summary.ts'

export type TaskFilter = {
  readonly state?: TaskState | undefined
  readonly queue?: string | undefined
  readonly machine?: string | undefined
  /** Only tasks created before this one. */
  readonly before?: string | undefined
  /** From 1 to 100; 50 by default. */
  readonly limit?: number | undefined
}
export type TaskPage = {
  readonly tasks: readonly TaskSummary[]
  /** Send it as `before` to get the next page; null if there are no more. A page may be empty although `next` is set. */
  readonly next: Id<'task'> | null
}
type Deps = { readonly database: Transactions; readonly cell: number }

const DEFAULT_LIMIT = 50
const LIST_MS = 5_000
const MOST_READ = 20_000 // live tasks, and as many ended ones; takes about 50 ms
const BEHIND_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
const HIGHEST = 'ffffffff-ffff-7fff-bfff-ffffffffffff'

const TRACKS = `
  select k.id from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = coalesce($1, q.name) and k.machine = coalesce($2, k.machine)`

type Source = { readonly table: string; readonly columns: string; readonly stateColumn: 'state' | 'outcome' }
const LIVE: Source = { table: 'tasks', columns: OF_LIVE, stateColumn: 'state' }
const ENDED: Source = { table: 'task_history', columns: OF_ENDED, stateColumn: 'outcome' }
const ENDED_STATES: ReadonlySet<string> = new Set<TaskState>(['done', 'failed', 'cancelled'])
/** These states have their own index, so only rows of that state are read. */
const INDEXED: ReadonlySet<string> = new Set<TaskState>(['dead', 'held', 'claimed', 'failed'])

// $1 tenant · $2 before · $3 how many · $4 tracks. The state is one of our constants and is part of the text, so that the
// planner can use the index of that state. `edge` is the last row that was read, if a table has more; if both have, the newer
// one. The page ends there for both tables: otherwise pages would be out of order, or repeat tasks. The edge is looked up only
// for a table that gave too few tasks.
function buildQuery(state: TaskState | undefined, isTracked: boolean): string {
  const sources = state === undefined ? [LIVE, ENDED] : ENDED_STATES.has(state) ? [ENDED] : [LIVE]
  const parts = sources.map(({ table, columns, stateColumn }) => {
    const isState = state === undefined ? 'true' : `t.${stateColumn} = '${state}'`
    const read = `fleetline.${table} t where t.id < $2 and ${
      state !== undefined && INDEXED.has(state) ? `t.tenant = $1 and ${isState}` : 'true'
    } order by t.id desc`
    return {
      found: `${table}_found as materialized (
        select ${columns}
          from (select * from (select * from ${read} limit ${MOST_READ}) t
                 where t.tenant = $1 and ${isState} and ${isTracked ? 't.track = any ($4::int[])' : 'true'}
                 order by t.id desc limit $3) t ${TRACKED})`,
      edge: `case when (select count(*) from ${table}_found) < $3
                 then (select t.id from ${read} offset ${MOST_READ - 1} limit 1) end`,
      all: `select * from ${table}_found`,
    }
  })
  return `
    with ${parts.map(({ found }) => found).join(', ')}
    select e.edge, f.*
      from (select greatest(${parts.map(({ edge }) => edge).join(', ')}) as edge) e
      left join (${parts.map(({ all }) => all).join(' union all ')}) f on true
     order by f.id desc limit $3`
}

type Found = { readonly edge: string | null } & (TaskRow | { readonly id: null })

export function createTaskLister({ database, cell }: Deps) {
  return async (tenant: number, filter: TaskFilter = {}): Promise<TaskPage> => {
    const { state, queue = null, machine = null, limit = DEFAULT_LIMIT } = filter
    checkFilter(filter, limit)
    const before = parseBefore(filter, cell)
    const outcome = await database.transaction(
      async (query) => {
        const tracks = queue === null && machine === null ? undefined : await tracksOf(query, queue, machine)
        if (tracks?.length === 0) return []
        const values = [tenant, before, limit + 1, ...(tracks ? [tracks] : [])]
        return query<Found>(buildQuery(state, tracks !== undefined), values)
      },
      { access: 'read', deadlineMs: LIST_MS },
    )
    const found = valueOf(outcome, 'The tasks could not be read: try again, or ask for a state')
    return pageOf(found, { before, limit, cell })
  }
}

function pageOf(
  found: readonly Found[],
  { before, limit, cell }: { readonly before: string; readonly limit: number; readonly cell: number },
): TaskPage {
  const edge = maskId(found[0]?.edge ?? null, before)
  const rows = found.filter(
    (row): row is Found & TaskRow => row.id !== null && (edge === null || row.id >= edge),
  )
  const tasks = rows.slice(0, limit).map((row) => summaryOf(cell, row))
  if (rows.length > limit) return { tasks, next: tasks.at(-1)!.id }
  return { tasks, next: edge === null ? null : formatId('task', cell, edge) }
}

/** The last row that was read may belong to another tenant, so its id must reveal only its position in the order. Its last 62
 *  bits, which are random, are set to their highest value. If the result would not be below `before`, it keeps the digits of the
 *  id up to the first that differs from `before`. */
function maskId(id: string | null, before: string): string | null {
  if (id === null) return null
  const differs = [...id].findIndex((digit, index) => digit !== before[index])
  const kept = Math.max(19, differs + 1)
  const masked = id.slice(0, 19) + HIGHEST.slice(19)
  return masked < before ? masked : id.slice(0, kept) + HIGHEST.slice(kept)
}

function checkFilter({ state, queue, machine }: TaskFilter, limit: number): void {
  if (!isWithin(limit, 1, PAGE_LIMITS.items))
    throw new Rejected('invalid', `limit: must be from 1 to ${PAGE_LIMITS.items}`)
  if (state !== undefined && !TASK_STATES.includes(state))
    throw new Rejected('invalid', `state: must be one of ${TASK_STATES.join(', ')}`)
  for (const [field, name] of Object.entries({ queue, machine }))
    if (name !== undefined && !TASK_NAME.test(name))
      throw new Rejected('invalid', `${field}: must match ${TASK_NAME.source}`)
}

function parseBefore({ before }: TaskFilter, cell: number): string {
  if (before === undefined) return BEHIND_ALL
  const id = parseId('task', before)
  if (id?.cell !== cell)
    throw new Rejected('invalid', 'before: is not the id of a task: send `next` of the page before')
  return id.uuid
}

async function tracksOf(query: Query, queue: string | null, machine: string | null): Promise<number[]> {
  return (await query<{ id: number }>(TRACKS, [queue, machine])).map(({ id }) => id)
}
