// Which queues, tracks and shapes exist, and which of them this pod runs. A pod writes its own when it starts, in a separate
// transaction: in a caller's transaction their unique index would block other pods until that commits.
import { Rejected } from '../errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Machine } from './machine.ts'
import type { Runner } from './runner.ts'

/** What a track stands for. The shape of a task with one handler is empty. */
type Runnable = Pick<Machine, 'name' | 'queue' | 'shape' | 'transitions' | 'maxAttempts' | 'isInternal'>

/** Runners that share slots. Tasks may be slow and many, and must not keep a person waiting for the first word of a turn. */
type Pool = {
  readonly kind: 'tasks' | 'turns'
  /** By track number; empty before the start. */
  readonly runners: ReadonlyMap<number, Runner>
}

export type Tracks = Service & {
  /** The pools that have something to run. If there is none, this pod leaves the queue alone. */
  readonly pools: readonly Pool[]
  /** The runners of all pools. */
  readonly runners: ReadonlyMap<number, Runner>
  /** A machine that this pod runs and that anybody may enqueue. */
  machine(queue: string, name: string): Machine | undefined
}
type Deps = {
  readonly database: Transactions
  readonly machines: readonly Machine[]
  /** The machines whose tasks are written by sessions. */
  readonly turns: readonly Machine[]
}

const ADD_QUEUES = `
  insert into fleetline.queues (name) select distinct unnest($1::text[]) order by 1 on conflict do nothing`

// All pods insert in the same order, so two pods that start together never deadlock. Existing rows stay unchanged, unless the
// number of attempts differs: a restart writes nothing.
const ADD_TRACKS = `
  insert into fleetline.tracks as k (queue, machine, shape, max_attempts, is_internal)
  select q.id, r.machine, r.shape, r.max_attempts, r.is_internal
    from unnest($1::text[], $2::text[], $3::text[], $4::smallint[], $5::boolean[])
         r(queue, machine, shape, max_attempts, is_internal)
    join fleetline.queues q on q.name = r.queue
   order by 1, 2, 3
  on conflict (queue, machine, shape) do update set max_attempts = excluded.max_attempts
   where k.max_attempts <> excluded.max_attempts`

const ADD_SHAPES = `
  insert into fleetline.shapes (machine, shape, names)
  select distinct on (1, 2) r.machine, r.shape, array(select jsonb_array_elements_text(r.names::jsonb))
    from unnest($1::text[], $2::text[], $3::text[]) r(machine, shape, names)
   order by 1, 2
  on conflict do nothing`

const FIND = `
  select k.id, r.n::int as n
    from unnest($1::text[], $2::text[], $3::text[]) with ordinality r(queue, machine, shape, n)
    join fleetline.queues q on q.name = r.queue
    join fleetline.tracks k on k.queue = q.id and k.machine = r.machine and k.shape = r.shape
   order by r.n`

export function createTracks({ database, machines, turns }: Deps): Tracks {
  const all = [...machines, ...turns]
  const known = byName(machines)
  const runners = new Map<number, Runner>()
  const pools = [
    { kind: 'tasks' as const, machines, runners: new Map<number, Runner>() },
    { kind: 'turns' as const, machines: turns, runners: new Map<number, Runner>() },
  ].filter((pool) => pool.machines.length > 0)
  return {
    name: 'tracks',
    pools,
    runners,
    machine: (queue, name) => known.get(keyOf(queue, name)),
    start: async () => {
      if (all.length === 0) return
      const numbers = await register(database, all)
      for (const [index, machine] of all.entries()) {
        const [track, runner] = [numbers[index]!, machine.open()]
        runners.set(track, runner)
        for (const pool of pools) if (pool.machines.includes(machine)) pool.runners.set(track, runner)
      }
    },
    stop: async () => undefined,
  }
}

function keyOf(queue: string, name: string): string {
  return `${queue}/${name}`
}

function byName(machines: readonly Machine[]): ReadonlyMap<string, Machine> {
  const known = new Map<string, Machine>()
  for (const machine of machines) {
    const key = keyOf(machine.queue, machine.name)
    if (known.has(key)) throw new Rejected('invalid', `Two tasks are defined as ${key}: rename one`)
    known.set(key, machine)
  }
  return known
}

/** Returns the track numbers, in the order of `runnables`. */
export async function register(database: Transactions, runnables: readonly Runnable[]): Promise<number[]> {
  const rows = runnables.map((one) => ({
    ...one,
    names: JSON.stringify(one.transitions),
    isInternal: one.isInternal === true,
  }))
  const outcome = await database.transaction(async (query: Query) => {
    await query(ADD_QUEUES, columnsOf(rows, 'queue'))
    await query(ADD_SHAPES, columnsOf(rows, 'name', 'shape', 'names'))
    await query(ADD_TRACKS, columnsOf(rows, 'queue', 'name', 'shape', 'maxAttempts', 'isInternal'))
    return query<{ id: number }>(FIND, columnsOf(rows, 'queue', 'name', 'shape'))
  })
  return valueOf(outcome, 'The tracks could not be written').map(({ id }) => id)
}
