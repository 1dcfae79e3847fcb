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
  const enqueueAll = async (numbers: readonly number[]) => {
    for (let from = 0; from < numbers.length; from += LIST)
      await insert(client, numbers.slice(from, from + LIST))
  }
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

async function insert(client: pg.Client, numbers: readonly number[]): Promise<void> {
  const all = <Value>(value: Value) => numbers.map(() => value)
  await inTransaction(client, ENQUEUE, [
    numbers.map(() => uuidV7(Date.now(), randomBytes(10))),
    all(1),
    all('default'),
    all(MACHINE),
    all(PRIORITY),
    all(null),
    all(null),
    numbers.map((number) => JSON.stringify({ number })),
  ])
}

async function drain(client: pg.Client, run: (number: number) => void, signal: AbortSignal): Promise<void> {
  const { rows } = await client.query<{ pod: number; track: number }>(`
    insert into fleetline.pods (name, version) select 'bare', '' from fleetline.tracks
    returning id as pod, (select id from fleetline.tracks) as track`)
  const { pod, track } = rows[0]!
  while (!signal.aborted) {
    const claims = await inTransaction<Claim>(client, CLAIM, [pod, [track], [PRIORITY], BATCH, 1, [track]])
    for (const { input } of claims) run((input as { number: number }).number)
    const all = <Value>(value: Value) => claims.map(() => value)
    await inTransaction(client, END, [
      all(pod),
      claims.map(({ id }) => id),
      claims.map(({ attempt }) => attempt),
      all('done'),
      all('null'),
      all(null),
    ])
  }
}

async function inTransaction<Row extends pg.QueryResultRow>(
  client: pg.Client,
  text: string,
  values: readonly unknown[],
): Promise<Row[]> {
  await client.query('begin')
  const { rows } = await client.query<Row>(text, [...values])
  await client.query('commit')
  return rows
}
