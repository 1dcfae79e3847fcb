// A conversation for tests: a session with an agent. The test claims and ends turns by hand, and reads the rows by SQL.
import type { TestContext } from 'node:test'
import { formatId } from '@fleetline/protocol'
import { join } from '../../src/fleet/pods.ts'
import { draftOf } from '../../src/session/draft.ts'
import type { SessionKey, TurnEnd } from '../../src/session/items.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { claim, type Claim } from '../../src/task/claim.ts'
import { databaseFor } from './database.ts'
import { textDraft } from './history.ts'
import { appenderOn, sessionFor } from './sessions.ts'
import { openDatabase } from './store.ts'
import { asksFor } from './throttle.ts'

export type TurnRow = {
  readonly id: string
  readonly epoch: number
  readonly from: number
  readonly to: number | null
  readonly outcome: string | null
}
type Rows = {
  readonly session: { readonly head: number; readonly turn: string | null; readonly epoch: number }
  readonly turns: readonly TurnRow[]
  readonly tasks: readonly string[]
  readonly messages: readonly { readonly id: string; readonly answers: number | null }[]
}

export async function conversationOn(t: TestContext) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const key = await sessionFor(database)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  await run((query) => query(`update fleetline.sessions set agent = 'demo' where id = $1`, [key.session]))
  const pod = await run((query) => join(query, { name: 'test', version: '0', tracks: [] }))
  const [track] = await run((query) =>
    query<{ id: number }>(`select id from fleetline.tracks where machine = 'turn' and shape = 'session'`),
  )
  const tracks = [track!.id]
  return {
    url,
    database,
    key,
    run,
    pod,
    ...driversOf(database, key),
    rows: () => run((query) => rowsOf(query, key)),
    claimTurn: async (by = pod): Promise<Claim> =>
      (
        await run((query) =>
          claim(query, { pod: by, asks: asksFor(tracks, 1), most: 1, suspects: 1, turn: 0 }),
        )
      )[0]!,
    /** Fixes up to which seq the turn reads, as its attempt does. */
    gather: (turn: string, readTo: number) =>
      run((query) => query('update fleetline.turns set read_to = $2 where id = $1', [turn, readTo])),
  }
}

/** The functions by which a pod writes to the conversation. A test may pass a database that a mutant has changed. */
export function driversOf(database: Pick<Database, 'transaction'>, key: SessionKey) {
  const { append, endTurn, stopTurn, expireTurn } = appenderOn(database)
  return {
    append,
    endTurn,
    stopTurn,
    expireTurn,
    ask: (id: string) => append({ ...key, draft: textDraft(id), asks: true }),
  }
}

export function doneBy(
  key: SessionKey,
  pod: number,
  { id, attempt }: Pick<Claim, 'id' | 'attempt'>,
  epoch: number,
): TurnEnd {
  const parts = [{ type: 'text', text: `reply of ${epoch}` }]
  const draft = draftOf({
    id: formatId('message', 0, id),
    role: 'assistant',
    parts,
    author: { kind: 'agent' },
  })
  return { ...key, turn: id, epoch, attempt, pod, outcome: 'done', draft }
}

async function rowsOf(query: Query, { tenant, session }: SessionKey): Promise<Rows> {
  const mine = [tenant, session]
  const [row] = await query<Rows['session']>(
    'select head, turn, epoch from fleetline.sessions where tenant = $1 and id = $2',
    mine,
  )
  const turns = await query<TurnRow>(
    `select id, epoch, read_from as from, read_to as to, outcome from fleetline.turns
      where tenant = $1 and session = $2 order by epoch`,
    mine,
  )
  const tasks = await query<{ id: string }>('select id from fleetline.tasks order by id')
  const messages = await query<Rows['messages'][number]>(
    'select id, answers from fleetline.messages where tenant = $1 and session = $2 order by seq',
    mine,
  )
  return { session: row!, turns, tasks: tasks.map(({ id }) => id), messages }
}
