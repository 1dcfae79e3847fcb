// Writes how an attempt ended. Guarantees:
//   Q3   a write for an attempt that is no longer current changes no row and returns `fenced`: the WHERE names
//        (id, attempt, pod), and pod is set exactly while the task is claimed
//   Q4   an ended task leaves the live table in the commit that writes its history: nothing can run it again
//   L11  a fenced attempt, or a result that cannot be stored, changes nothing for the rest of its batch
//
//   settlement   the row                                             counts as an attempt
//   done         into the history, with its result                   yes
//   failed       into the history, with its error                    yes
//   retry        waiting for delayMs, with its error                 yes
//   later        waiting for delayMs, as the handler asked           no
//   back         ready, at its old place: it did not run here        no
//                (a suspect: waiting, and due)
//   held         held, with its error: a person lets it continue     yes
//   dead         dead, with its error: a person looks                yes
// Finished transitions are recorded in the same batches. The row stays claimed: its position grows by one, its carry by one
// entry, and attempts are counted again, starting with this one (Q13). A repeated record changes nothing. The settlement itself
// records the last transition.
// A cancelled task goes into the history, whichever pod holds it; that pod's settlement is then fenced.
//
// A write whose outcome is unknown is repeated. A repeat that matches no row checks whether the first try succeeded.
import { Retry } from '../errors.ts'
import { createBatcher } from '../lib/batcher.ts'
import type { Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import { isDataFault, isHeldUp } from '../store/sqlstate.ts'
import { untilCommitted } from '../store/until-committed.ts'
import { withPartitions } from './partitions.ts'

/** `result` and `error` are JSON texts that `toStorableJson` has accepted. */
export type Settlement =
  | {
      readonly type: 'done'
      readonly result: string
      readonly via?: 'handoff'
      readonly last?: DoneTransition
    }
  | { readonly type: 'failed'; readonly error: string }
  | { readonly type: 'retry'; readonly delayMs: number; readonly error: string }
  | { readonly type: 'later'; readonly delayMs: number; readonly error: string }
  | { readonly type: 'back' }
  | { readonly type: 'held'; readonly reason: string; readonly error: string }
  | { readonly type: 'dead'; readonly error: string }

/** A finished transition: the position of the task after it, its output, and how long it took. */
export type DoneTransition = {
  readonly name: string
  readonly position: number
  readonly value: string
  readonly ms: number
}
export type Recording = { readonly type: 'record'; readonly entry: DoneTransition }

/** A claim. The pod holds it while (id, attempt, pod) are in the row. */
export type HeldClaim = { readonly pod: number; readonly id: string; readonly attempt: number }

export type Settling = HeldClaim & {
  readonly settlement: Settlement | Recording
  /** It was sent before, with an unknown outcome. */
  readonly isRepeat?: boolean
}
export type Settled = 'settled' | 'fenced'

export type Settler = Service & { settle(item: Settling): Promise<Settled> }

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly deadlineMs: number
}

const NEVER_MS = 24 * 60 * 60_000 // in effect no deadline: each try has its own, and no person waits
const SHORT = { lockTimeoutMs: 100 } // how long a locked task delays the rest of the batch
const BATCH = { maxItems: 500, maxWeight: 4 * 1024 * 1024 }
const WAITING = { maxWaiting: 10_000, maxWaitingWeight: 64 * 1024 * 1024 }

// Does not check `state = 'claimed'`: a set pod implies it, and with it the planner may walk all claims of the pod instead of
// looking up one id after the other.
const endOf = (using: string, where: string) => `
  with gone as (
    delete from fleetline.tasks t using ${using} where ${where}
    returning t.id, t.created_at, t.claimed_at, t.track, t.tenant, t.attempt, t.pod, t.priority, t.spent, t.input,
              e.outcome, e.result::jsonb as result, coalesce(fleetline.fault(t.error, e.error::jsonb), t.error) as error,
              e.via, coalesce(e.position, t.position) as position,
              case when e.name is null then t.carry
                   else coalesce(t.carry, '{}') || fleetline.entry(e.name, e.value::jsonb, t.attempt, e.ms) end as carry)
  insert into fleetline.task_history (id, created_at, claimed_at, track, tenant, attempt, pod, priority, spent, input,
                                      outcome, result, error, via, position, carry)
  select id, created_at, claimed_at, track, tenant, attempt, pod, priority, spent, input,
         outcome, result, error, via, position, carry from gone
  returning id, attempt`
export const END: string = endOf(
  `unnest($1::int[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[], $9::text[],
          $10::text[], $11::float8[])
     e(pod, id, attempt, outcome, result, error, via, position, name, value, ms)`,
  't.id = e.id and t.attempt = e.attempt and t.pod = e.pod',
)

// Ignores attempt and pod; the caller must hold the row lock.
const CANCEL = endOf(
  `(select c.*, 'cancelled' as outcome, null as result, null as error, null as via, null::smallint as position,
           null as name, null as value, null::float8 as ms from unnest($1::int[], $2::uuid[]) c(tenant, id)) e`,
  't.id = e.id and t.tenant = e.tenant',
)
const LOCK = `
  select l.n::int as n, t.attempt, t.pod from unnest($1::int[], $2::uuid[]) with ordinality l(tenant, id, n)
    join fleetline.tasks t on t.id = l.id and t.tenant = l.tenant
   order by t.id for update of t`

// In the order of ids, so that two transactions that lock many rows never deadlock.
const HOLD = `
  select h.n::int as n from unnest($1::int[], $2::uuid[], $3::int[]) with ordinality h(pod, id, attempt, n)
    join fleetline.tasks t on t.id = h.id and t.attempt = h.attempt and t.pod = h.pod
   order by t.id for update of t`

const CHANGE = `
  update fleetline.tasks t
     set state = (case when c.state = 'ready' and t.reason = 'suspect' then 'waiting' else c.state end)::fleetline.task_state,
         pod = null, claimed_at = null, spent = t.spent - c.given_back,
         run_at = coalesce(now() + c.delay_ms * interval '1 ms', t.run_at), reason = coalesce(c.reason, t.reason),
         error = coalesce(fleetline.fault(t.error, c.error::jsonb), t.error)
    from unnest($1::int[], $2::uuid[], $3::int[], $4::text[], $5::smallint[], $6::float8[], $7::text[], $8::text[])
         c(pod, id, attempt, state, given_back, delay_ms, reason, error)
   where t.id = c.id and t.attempt = c.attempt and t.pod = c.pod
  returning t.id, t.attempt`

// Checks the fence and the previous position, so that the position only grows and recorded outputs stay. Clears the reason,
// because the pod that ran the transition has survived. If the reason was empty, no indexed column changes (HOT).
export const RECORD = `
  update fleetline.tasks t
     set position = r.position, spent = 1, reason = null,
         carry = coalesce(t.carry, '{}') || fleetline.entry(r.name, r.value::jsonb, t.attempt, r.ms)
    from unnest($1::int[], $2::uuid[], $3::int[], $4::smallint[], $5::text[], $6::text[], $7::float8[])
         r(pod, id, attempt, position, name, value, ms)
   where t.id = r.id and t.attempt = r.attempt and t.pod = r.pod and t.position = r.position - 1
  returning t.id, t.attempt`

// Finds what an earlier try has written. Our record of a transition is in the row while we have the claim. Our end is in the
// history. Any other settlement of ours has given up the claim. The leader also gives it up if it has counted this pod as dead,
// but then the error names the pod.
const DONE_BEFORE = `
  select s.id, s.attempt
    from unnest($1::int[], $2::uuid[], $3::int[], $4::boolean[], $5::smallint[]) s(pod, id, attempt, is_end, position)
   where exists (select from fleetline.tasks t where t.id = s.id and t.attempt = s.attempt and t.pod = s.pod
                    and t.position >= s.position)
      or exists (select from fleetline.task_history h where s.is_end and h.id = s.id and h.attempt = s.attempt and h.pod = s.pod
                    and h.outcome <> 'cancelled')
      or exists (select from fleetline.tasks t where not s.is_end and s.position is null and t.id = s.id and t.attempt = s.attempt and t.pod is null
                    and not coalesce(t.error ? 'pod' and (t.error ->> 'attempt')::int = s.attempt, false))`

export function createSettler(deps: Deps): Settler {
  const commit = async (items: readonly Settling[], isAlone: boolean): Promise<Settled[]> => {
    const work = (query: Query, isRepeat: boolean) => settleAll(query, items, isRepeat)
    const outcome = await untilCommitted(deps, work, { repeatsUnknown: true, ...(!isAlone && SHORT) })
    if (outcome.type === 'unknown')
      throw new Retry('unavailable', 'Whether attempts were settled is not known', { cause: outcome.error })
    return valueOf(outcome, 'Attempts were not settled')
  }
  const batcher = createBatcher<Settling, Settled>({
    name: 'settle',
    clock: deps.clock,
    deadlineMs: NEVER_MS,
    ...BATCH,
    ...WAITING,
    weigh: ({ settlement }) => JSON.stringify(settlement).length,
    keyOf: ({ id }) => id,
    commit: async (items, isAlone) => {
      await crashPoint('settle.before')
      return withPartitions(deps.database, () => commit(items, isAlone))
    },
    isRefusal: isDataFault,
    isHeldUp,
  })
  return {
    name: 'settle',
    start: async () => undefined,
    stop: () => batcher.flush(),
    settle: (item) => batcher.add(item),
  }
}

/** Says which claims are still held, and locks those until the transaction ends. For ends that also write rows of other rooms. */
export async function holdClaims(query: Query, claims: readonly HeldClaim[]): Promise<boolean[]> {
  const rows = await query<{ n: number }>(HOLD, columnsOf(claims, 'pod', 'id', 'attempt'))
  const held = new Set(rows.map(({ n }) => claims[n - 1]))
  return claims.map((claim) => held.has(claim))
}

/** Moves held tasks into the history, in the transaction that locked them. Returns how many. */
export async function endClaims(query: Query, items: readonly Settling[]): Promise<number> {
  return (await end(query, items)).length
}

type TaskKey = { readonly tenant: number; readonly id: string }
type Locked = { readonly attempt: number; readonly pod: number | null }

/** Locks tasks until the transaction ends. Returns attempt and pod of each, in order; undefined if there is no such task. */
export async function lockTasks(
  query: Query,
  tasks: readonly TaskKey[],
): Promise<readonly (Locked | undefined)[]> {
  const rows = await query<Locked & { readonly n: number }>(LOCK, keysOf(tasks))
  const locked = new Map(rows.map(({ n, ...row }) => [n - 1, row]))
  return tasks.map((_, index) => locked.get(index))
}

/** Moves locked tasks into the history, in the transaction that locked them. Returns how many. */
export async function cancelTasks(query: Query, tasks: readonly TaskKey[]): Promise<number> {
  return tasks.length === 0 ? 0 : (await query(CANCEL, keysOf(tasks))).length
}

function keysOf(tasks: readonly TaskKey[]): unknown[][] {
  return columnsOf(tasks, 'tenant', 'id')
}

async function settleAll(query: Query, items: readonly Settling[], isRepeat: boolean): Promise<Settled[]> {
  const settled = new Set([
    ...(await end(query, items.filter(isEnd))),
    ...(await change(query, items.filter(isChange))),
    ...(await record(query, items.filter(isRecord))),
  ])
  const missing = items.filter((item) => (isRepeat || item.isRepeat) && !settled.has(nameOf(item)))
  if (missing.length > 0) {
    for (const name of await doneBefore(query, missing)) settled.add(name)
  }
  return items.map((item) => (settled.has(nameOf(item)) ? 'settled' : 'fenced'))
}

function isEnd({ settlement }: Settling): boolean {
  return settlement.type === 'done' || settlement.type === 'failed'
}

function isRecord({ settlement }: Settling): boolean {
  return settlement.type === 'record'
}

function isChange(item: Settling): boolean {
  return !isEnd(item) && !isRecord(item)
}

type Attempt = Pick<HeldClaim, 'id' | 'attempt'>

/** A batch may contain two attempts of one task; at most one of them is current. */
function nameOf({ id, attempt }: Attempt): string {
  return `${id} ${attempt}`
}

/** Returns the names of those that the statement found. `rest` are its parameters after pod, id and attempt. */
async function each(
  query: Query,
  text: string,
  items: readonly Settling[],
  rest: readonly (readonly unknown[])[],
): Promise<string[]> {
  if (items.length === 0) return []
  const rows = await query<Attempt>(text, [...columnsOf(items, 'pod', 'id', 'attempt'), ...rest])
  return rows.map(nameOf)
}

async function end(query: Query, items: readonly Settling[]): Promise<string[]> {
  const settlements = items.map(({ settlement }) => settlement)
  return each(query, END, items, [
    settlements.map(({ type }) => type),
    settlements.map((one) => (one.type === 'done' ? one.result : null)),
    settlements.map((one) => (one.type === 'failed' ? one.error : null)),
    settlements.map((one) => (one.type === 'done' ? one.via : null)),
    ...entries(settlements.map((one) => (one.type === 'done' ? one.last : undefined))),
  ])
}

async function record(query: Query, items: readonly Settling[]): Promise<string[]> {
  return each(query, RECORD, items, entries(items.map(entryOf)))
}

function entryOf({ settlement }: Settling): DoneTransition | undefined {
  return settlement.type === 'record' ? settlement.entry : undefined
}

function entries(list: readonly (DoneTransition | undefined)[]): unknown[][] {
  return [
    list.map((entry) => entry?.position),
    list.map((entry) => entry?.name),
    list.map((entry) => entry?.value),
    list.map((entry) => entry?.ms),
  ]
}

const STATES = { retry: 'waiting', later: 'waiting', back: 'ready', held: 'held', dead: 'dead' } as const
const REASONS = { retry: 'retry', later: 'later', back: null, dead: 'failed' } as const // null: unchanged

async function change(query: Query, items: readonly Settling[]): Promise<string[]> {
  const changes = items.flatMap(({ settlement: one }) =>
    one.type === 'done' || one.type === 'failed' || one.type === 'record' ? [] : [one],
  )
  return each(query, CHANGE, items, [
    changes.map(({ type }) => STATES[type]),
    changes.map(({ type }) => (type === 'later' || type === 'back' ? 1 : 0)),
    changes.map((one) => ('delayMs' in one ? one.delayMs : null)),
    changes.map((one) => (one.type === 'held' ? one.reason : REASONS[one.type])),
    changes.map((one) => ('error' in one ? one.error : null)),
  ])
}

async function doneBefore(query: Query, items: readonly Settling[]): Promise<string[]> {
  return each(query, DONE_BEFORE, items, [items.map(isEnd), items.map((item) => entryOf(item)?.position)])
}
