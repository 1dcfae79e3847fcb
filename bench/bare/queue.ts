// The engine alone: a script runs the statements of task/enqueue, task/claim and task/settle on the same tables, each in a
// transaction of its own, one after the other. There is no pod, no beat, no handler and no hint that wakes anybody.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { uuidV7 } from '@fleetline/protocol'
import { claim, type Claim } from '../../packages/server/src/task/claim.ts'
import type { Query } from '../../packages/server/src/store/database.ts'
import { ENQUEUE } from '../../packages/server/src/task/enqueue.ts'
import { END } from '../../packages/server/src/task/settle.ts'
import { MACHINE, prepare as prepareOurs } from '../ours/queue.ts'
import type { ContestantModule } from '../support/contestant.ts'

export { UNFINISHED } from '../ours/queue.ts'

const [LIST, BATCH, PRIORITY] = [1_000, 500, 3]

export const prepare: ContestantModule['prepare'] = prepareOurs

export const open: ContestantModule['open'] = async (url) => {
  const client = new pg.Client(url)
  await client.connect()
  const enqueueAll = (numbers: readonly number[]) => insertAll(client, MACHINE, numbers)
  return {
    enqueueAll,
    enqueue: (number) => enqueueAll([number]),
    work: async (run) => {
      const stopping = new AbortController()
      const loop = drain(client, run, stopping.signal)
      return () => {
        stopping.abort()
        return loop
      }
    },
    close: () => client.end(),
  }
}

export async function insertAll(
  client: pg.Client,
  machine: string,
  numbers: readonly number[],
): Promise<void> {
  for (let from = 0; from < numbers.length; from += LIST) {
    const list = numbers.slice(from, from + LIST)
    const all = <Value>(value: Value) => list.map(() => value)
    await runAlone(client, ENQUEUE, [
      list.map(() => uuidV7(Date.now(), randomBytes(10))),
      all(1),
      all('default'),
      all(machine),
      all(null), // no shape: prefers the one that a live pod runs
      all(PRIORITY),
      all(null),
      all(null),
      list.map((number) => JSON.stringify({ number })),
    ])
  }
}

/** Adds a row for a pod. Resolves to its id and the track of the machine. */
export async function joined(client: pg.Client, machine: string): Promise<Self> {
  const { rows } = await client.query<Self>(
    `insert into fleetline.pods (name, version, tracks)
     select 'bare', '', array[id] from fleetline.tracks where machine = $1
     returning id as pod, tracks[1] as track`,
    [machine],
  )
  return rows[0]!
}

type Self = { readonly pod: number; readonly track: number }

/** Claims at most `most` tasks of the track, in a transaction of its own. */
export async function claimAll(client: pg.Client, { pod, track }: Self, most: number): Promise<Claim[]> {
  const asks = [{ track, group: 0, room: most }]
  return inTransaction(client, (query) => claim(query, { pod, asks, most, suspects: 1, turn: 0 }))
}

async function drain(client: pg.Client, run: (number: number) => void, signal: AbortSignal): Promise<void> {
  const self = await joined(client, MACHINE)
  while (!signal.aborted) {
    const claims = await claimAll(client, self, BATCH)
    for (const { input } of claims) run((input as { number: number }).number)
    const all = <Value>(value: Value) => claims.map(() => value)
    await runAlone(client, END, [
      all(self.pod),
      claims.map(({ id }) => id),
      claims.map(({ attempt }) => attempt),
      all('done'),
      all('null'),
      ...Array(6).fill(all(null)), // no error, no hand-off, no last transition
    ])
  }
}

/** Runs one statement in a transaction. */
export async function runAlone(client: pg.Client, text: string, values: readonly unknown[]): Promise<void> {
  await inTransaction(client, (query) => query(text, values))
}

async function inTransaction<T>(client: pg.Client, work: (query: Query) => Promise<T>): Promise<T> {
  const query: Query = async <Row>(text: string, values: readonly unknown[] = []) =>
    (await client.query(text, [...values])).rows as Row[]
  await client.query('begin')
  const value = await work(query)
  await client.query('commit')
  return value
}
