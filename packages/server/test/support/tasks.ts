// A queue for tests, on a database of its own. Pods are only rows. The test reads the stored rows by SQL.
import type { TestContext } from 'node:test'
import { join } from '../../src/fleet/pods.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { claim, type Claim } from '../../src/task/claim.ts'
import { createEnqueuer } from '../../src/task/enqueue.ts'
import { createSettler, type Recording, type Settlement } from '../../src/task/settle.ts'
import { register } from '../../src/task/tracks.ts'
import { databaseFor } from './database.ts'
import { openDatabase } from './store.ts'
import { asksFor } from './throttle.ts'

export const TENANT = 1 // the only tenant in a new database

type Transactions = Pick<Database, 'transaction'>

type TaskRow = {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly spent: number
  readonly pod: number | null
  readonly reason: string | null
  readonly input: unknown
  readonly error: { readonly code: string; readonly attempts: readonly object[] } | null
}
type HistoryRow = {
  readonly id: string
  readonly outcome: string
  readonly attempt: number
  readonly spent: number
  readonly pod: number
  readonly result: unknown
  readonly error: { readonly code: string; readonly attempts: readonly object[] } | null
}

/** Registers the task `work`, with five attempts, in the queue `default`. */
export async function queueOn(t: TestContext) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const tracks = await register(database, [
    { queue: 'default', name: 'work', shape: '', transitions: ['run'], maxAttempts: 5 },
  ])
  return { url, database, tracks, ...partsOn(database), ...(await viewOf(database, tracks)) }
}

export function partsOn(database: Transactions) {
  const deps = { database, clock: systemClock(), random: systemRandom(), deadlineMs: 120_000 }
  const enqueuer = createEnqueuer({ ...deps, cell: 0, onEnqueued: () => undefined })
  const settler = createSettler(deps)
  return {
    enqueuer,
    enqueue: async (count: number, more = {}) =>
      enqueuer.enqueueAll(
        TENANT,
        Array.from({ length: count }, (_, n) => ({ machine: 'work', input: n, ...more })),
      ),
    settle: (
      pod: number,
      { id, attempt }: Pick<Claim, 'id' | 'attempt'>,
      settlement: Settlement | Recording,
    ) => settler.settle({ pod, id, attempt, settlement }),
  }
}

async function viewOf(database: Transactions, tracks: readonly number[]) {
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  return {
    run,
    newPod: () => run((query) => join(query, { name: 'test', version: '0', tracks: [] })),
    claim: (pod: number, most = 100) =>
      run((query) => claim(query, { pod, asks: asksFor(tracks, most), most, suspects: 1, turn: 0 })),
    tasks: () => run((query) => query<TaskRow>('select * from fleetline.tasks order by place')),
    history: () =>
      run((query) => query<HistoryRow>('select * from fleetline.task_history order by settled_at, id')),
  }
}

export const DONE: Settlement = { type: 'done', result: 'null' }

export function doneWith(result: unknown): Settlement {
  return { type: 'done', result: JSON.stringify(result) }
}
