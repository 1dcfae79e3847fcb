// Inserts tasks into the queue. Guarantees:
//   Q10  a task exists exactly if the transaction that enqueued it has committed: ours, or the caller's own
//   Q1   the answer comes after the commit. If an outcome is unknown, the insert is repeated under the same id until it is
//        known, or until the deadline
//   S15  a task that cannot be stored is rejected alone; the others in its batch are stored
// An id that the caller chose is stored once, even after its task has ended. An insert that succeeds has waited for any other
// transaction that held the id, so a later look into the history sees where that task went. If the task exists already, the
// answer comes from a transaction that writes, so that its commit follows the first one: rows that a plain read finds may be
// on no standby.
import { formatId, TASK_LIMITS, type Id } from '@fleetline/protocol'
import { Rejected, Retry } from '../errors.ts'
import { createBatcher } from '../lib/batcher.ts'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Outcome, type Query } from '../store/database.ts'
import { isDataFault, isHeldUp, isValueFault } from '../store/sqlstate.ts'
import { untilCommitted } from '../store/until-committed.ts'
import { draftOf, type TaskDraft, type Shaped } from './draft.ts'

/** `created` is false if a task with this id existed already. */
export type Enqueued = { readonly id: Id<'task'>; readonly created: boolean }

type Enqueuer = Service & {
  enqueue(tenant: number, spec: Shaped): Promise<Enqueued>
  /** Enqueues all of them or none. */
  enqueueAll(tenant: number, specs: readonly Shaped[]): Promise<Enqueued[]>
  /** In the caller's transaction: the tasks exist if it commits, and no pod is woken. */
  enqueueIn(query: Query, tenant: number, specs: readonly Shaped[]): Promise<Enqueued[]>
}

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly deadlineMs: number
  readonly cell: number
  /** Called after a commit that created tasks. */
  readonly onEnqueued: () => void
}
type Answer = 'made' | 'there' | 'conflict' | 'no-track'

const SHORT = { lockTimeoutMs: 100 } // how long an id that an open transaction has taken delays the rest of the batch
const BATCH = { maxItems: 500, maxWeight: 4 * 1024 * 1024 }
const WAITING = { maxWaiting: 10_000, maxWaitingWeight: 64 * 1024 * 1024 }

// Places are drawn in the order of the list. Queues and machines are looked up by name here, so the pod need not know or keep
// anything about them. A machine that no pod has run gives no row. `materialized` makes this one lookup per name; without it
// there would be one per task. Inserted rows are found with `in`, which hashes: for a join the planner expects one row, and
// chooses a nested loop.
export const ENQUEUE = `
  with sent as (
    select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::timestamptz[],
                         $8::smallint[], $9::text[]) with ordinality
                  a(id, tenant, queue, machine, shape, priority, run_at, max_attempts, input, n)),
  named as materialized (
    select queue, machine, shape, case when shape is null then fleetline.track_of(queue, machine) end as track
      from (select distinct * from unnest($3::text[], $4::text[], $5::text[]) d(queue, machine, shape)) d),
  known as materialized (
    select d.queue, d.machine, d.shape, k.id as track, k.max_attempts as usual
      from named d join fleetline.queues q on q.name = d.queue
      join fleetline.tracks k on k.id = d.track
        or d.track is null and k.queue = q.id and k.machine = d.machine and k.shape = d.shape),
  asked as (
    select a.*, k.track, k.usual
      from sent a join known k on k.queue = a.queue and k.machine = a.machine and k.shape is not distinct from a.shape),
  made as (
    insert into fleetline.tasks (id, tenant, track, priority, max_attempts, input, run_at, state)
    select id, tenant, track, priority, coalesce(max_attempts, usual), input::jsonb, coalesce(run_at, now()),
           (case when run_at > now() then 'waiting' else 'ready' end)::fleetline.task_state
      from asked order by n
    on conflict (id) do nothing returning id)
  select n::int as n, id in (select id from made) as made from asked`

// A separate statement, so that its snapshot is younger than the insert.
export const ENDED_BEFORE = `
  delete from fleetline.tasks t using fleetline.task_history h
   where t.id = any ($1::uuid[]) and h.id = t.id returning t.id`

// Is it the same task, or another one under the same id? The message makes the commit wait for the standbys.
const COMPARE = `
  select k.n::int as n,
         bool_and(f.tenant = k.tenant and f.input = k.input::jsonb and q.name = k.queue and r.machine = k.machine) as same,
         pg_logical_emit_message(true, 'fleetline', '')
    from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[]) with ordinality
         k(id, tenant, queue, machine, input, n)
    join (select id, tenant, track, input from fleetline.tasks where id = any ($1::uuid[])
          union all select id, tenant, track, input from fleetline.task_history where id = any ($1::uuid[])) f
      on f.id = k.id
    join fleetline.tracks r on r.id = f.track join fleetline.queues q on q.id = r.queue
   group by k.n`

export function createEnqueuer(deps: Deps): Enqueuer {
  const batcher = createBatcher<TaskDraft, Answer>({
    name: 'enqueue',
    clock: deps.clock,
    deadlineMs: deps.deadlineMs,
    ...BATCH,
    ...WAITING,
    weigh: ({ input }) => input.length,
    keyOf: ({ id }) => id,
    commit: async (drafts, isAlone) => {
      const work = (query: Query, isRepeat: boolean) => insert(query, drafts, isRepeat)
      const options = { repeatsUnknown: true, ...(!isAlone && SHORT) }
      return committed(await untilCommitted(deps, work, options))
    },
    isRefusal: isDataFault,
    isHeldUp,
  })
  const accepted = (draft: TaskDraft, answer: Answer): Enqueued => {
    if (answer === 'no-track')
      throw new Rejected(
        'not_found',
        `No pod has run ${draft.machine} in queue ${draft.queue} yet: start one that knows it`,
      )
    if (answer === 'conflict') throw new Rejected('conflict', 'Another task has this id: choose another one')
    return { id: formatId('task', deps.cell, draft.id), created: answer === 'made' }
  }
  const draftsOf = (tenant: number, specs: readonly Shaped[]) => {
    if (specs.length > TASK_LIMITS.list)
      throw new Rejected('too_many', `At most ${TASK_LIMITS.list} tasks are enqueued at once`)
    const drafts = specs.map((spec) => draftOf(deps, tenant, spec))
    if (new Set(drafts.map(({ id }) => id)).size < drafts.length)
      throw new Rejected('conflict', 'Two tasks of the list have one id')
    return drafts
  }
  const insertAll = async (query: Query, drafts: readonly TaskDraft[], isRepeat: boolean) => {
    const answers = await insert(query, drafts, isRepeat)
    if (answers.some(isRefused)) await takeBack(query, drafts, answers)
    return drafts.map((draft, index) => accepted(draft, answers[index]!))
  }
  return {
    name: 'enqueue',
    start: async () => undefined,
    stop: () => batcher.flush(),
    enqueue: async (tenant, spec) => {
      const draft = draftOf(deps, tenant, spec)
      const enqueued = accepted(draft, await batcher.add(draft).catch(toSender))
      if (enqueued.created) deps.onEnqueued()
      return enqueued
    },
    enqueueAll: async (tenant, specs) => {
      const drafts = draftsOf(tenant, specs)
      if (drafts.length === 0) return []
      const work = (query: Query, isRepeat: boolean) => insertAll(query, drafts, isRepeat)
      const outcome = await untilCommitted(deps, work, { repeatsUnknown: true })
      const enqueued = await Promise.resolve(outcome).then(committed).catch(toSender)
      if (enqueued.some(({ created }) => created)) deps.onEnqueued()
      return enqueued
    },
    enqueueIn: (query, tenant, specs) => insertAll(query, draftsOf(tenant, specs), false).catch(toSender),
  }
}

function toSender(error: unknown): never {
  if (!isValueFault(error)) throw error
  throw new Rejected('invalid', 'PostgreSQL cannot store this task', { cause: error })
}

function committed<T>(outcome: Outcome<T>): T {
  if (outcome.type === 'unknown')
    throw new Retry('unavailable', 'Whether the task was enqueued is not known', { cause: outcome.error })
  return valueOf(outcome, 'The task was not enqueued')
}

function isRefused(answer: Answer): boolean {
  return answer === 'conflict' || answer === 'no-track'
}

/** If one task of a list is rejected, deletes the others again: the caller's own transaction may go on and commit. */
async function takeBack(
  query: Query,
  drafts: readonly TaskDraft[],
  answers: readonly Answer[],
): Promise<void> {
  const made = drafts.filter((_, index) => answers[index] === 'made')
  await query('delete from fleetline.tasks where id = any ($1::uuid[])', [made.map(({ id }) => id)])
}

async function insert(query: Query, drafts: readonly TaskDraft[], isRepeat: boolean): Promise<Answer[]> {
  const rows = await query<{ n: number; made: boolean }>(
    ENQUEUE,
    columnsOf(
      drafts,
      'id',
      'tenant',
      'queue',
      'machine',
      'shape',
      'priority',
      'runAt',
      'maxAttempts',
      'input',
    ),
  )
  const known = new Set(rows.map(({ n }) => drafts[n - 1]!))
  const made = firstMade(rows, drafts)
  const mayHaveEnded = [...made.values()].filter(({ isNamed }) => isRepeat || isNamed)
  for (const id of await endedBefore(query, mayHaveEnded)) made.delete(id)
  const isMade = (draft: TaskDraft) => made.get(draft.id) === draft
  const there = drafts.filter((draft) => known.has(draft) && !isMade(draft))
  const same = await compare(query, there)
  return drafts.map((draft) => {
    if (!known.has(draft)) return 'no-track'
    return isMade(draft) ? 'made' : same.has(draft) ? 'there' : 'conflict'
  })
}

/** By id. If two have the same id, the first was stored, because the statement follows the order of the list. */
function firstMade(
  rows: readonly { readonly n: number; readonly made: boolean }[],
  drafts: readonly TaskDraft[],
): Map<string, TaskDraft> {
  const numbers = rows.filter((row) => row.made).map(({ n }) => n)
  const lastFirst = numbers.toSorted((a, b) => b - a).map((n) => drafts[n - 1]!)
  return new Map(lastFirst.map((draft) => [draft.id, draft]))
}

async function endedBefore(query: Query, drafts: readonly TaskDraft[]): Promise<string[]> {
  if (drafts.length === 0) return []
  const rows = await query<{ id: string }>(ENDED_BEFORE, [drafts.map(({ id }) => id)])
  return rows.map(({ id }) => id)
}

async function compare(query: Query, drafts: readonly TaskDraft[]): Promise<Set<TaskDraft>> {
  if (drafts.length === 0) return new Set()
  const rows = await query<{ n: number; same: boolean }>(
    COMPARE,
    columnsOf(drafts, 'id', 'tenant', 'queue', 'machine', 'input'),
  )
  return new Set(rows.filter(({ same }) => same).map(({ n }) => drafts[n - 1]!))
}
