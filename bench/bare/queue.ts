// The engine alone: the statements of task/enqueue, task/claim and task/settle from a script, on the same tables, each in
// a transaction of its own, one after the other. No pod, no beat, no handler, nobody who is woken.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { uuidV7 } from '@fleetline/protocol'
import { CLAIM, type Claim } from '../../packages/server/src/task/claim.ts'
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
    await inTransaction(client, ENQUEUE, [
      list.map(() => uuidV7(Date.now(), randomBytes(10))),
      all(1),
      all('default'),
      all(machine),
      all(null), // whichever shape is run
      all(PRIORITY),
      all(null),
      all(null),
      list.map((number) => JSON.stringify({ number })),
    ])
  }
}

/** A pod as a row, and the track of the machine. */
export async function joined(
  client: pg.Client,
  machine: string,
): Promise<{ readonly pod: number; readonly track: number }> {
  const { rows } = await client.query<{ pod: number; track: number }>(
    `insert into fleetline.pods (name, version, tracks)
     select 'bare', '', array[id] from fleetline.tracks where machine = $1
     returning id as pod, tracks[1] as track`,
    [machine],
  )
  return rows[0]!
}

/** In the order of the statement: at most so many of the track. */
export function claimOf({ pod, track }: { pod: number; track: number }, most: number): unknown[] {
  return [pod, [track], [PRIORITY], most, 1, [track]]
}

async function drain(client: pg.Client, run: (number: number) => void, signal: AbortSignal): Promise<void> {
  const self = await joined(client, MACHINE)
  while (!signal.aborted) {
    const claims = await inTransaction<Claim>(client, CLAIM, claimOf(self, BATCH))
    for (const { input } of claims) run((input as { number: number }).number)
    const all = <Value>(value: Value) => claims.map(() => value)
    await inTransaction(client, END, [
      all(self.pod),
      claims.map(({ id }) => id),
      claims.map(({ attempt }) => attempt),
      all('done'),
      all('null'),
      ...Array(6).fill(all(null)), // no error, no hand-off, no last transition
    ])
  }
}

export async function inTransaction<Row extends pg.QueryResultRow>(
  client: pg.Client,
  text: string,
  values: readonly unknown[],
): Promise<Row[]> {
  await client.query('begin')
  const { rows } = await client.query<Row>(text, [...values])
  await client.query('commit')
  return rows
}
