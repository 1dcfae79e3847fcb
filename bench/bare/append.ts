// The engine alone: the statements of session/append on the same tables. One batch is under way; the next one contains all
// items that came meanwhile. There is no HTTP, no validation, no metrics and no follower. The time is that of PostgreSQL and
// its driver, and nothing else.
import { createHash } from 'node:crypto'
import pg from 'pg'
import { SESSION_LOCK, SESSION_SEEN, SESSION_WRITE } from '../../packages/server/src/session/append.ts'

type Item = { readonly session: string; readonly id: string; readonly body: string }
type Waiting = PromiseWithResolvers<number> & Item

type BareEngine = {
  /** Resolves to the seq, after the commit. */
  append(item: Item): Promise<number>
  close(): Promise<void>
}

const LARGEST = 256
const TENANT = 1

export async function openBareEngine(url: string): Promise<BareEngine> {
  const client = new pg.Client(url)
  await client.connect()
  const waiting: Waiting[] = []
  let isRunning = false
  const drain = async () => {
    isRunning = true
    await Promise.resolve()
    while (waiting.length > 0) await appendAll(client, waiting.splice(0, LARGEST))
    isRunning = false
  }
  return {
    append: (item) => {
      const entry = { ...item, ...Promise.withResolvers<number>() }
      waiting.push(entry)
      if (!isRunning) void drain()
      return entry.promise
    },
    close: () => client.end(),
  }
}

async function appendAll(client: pg.Client, batch: readonly Waiting[]): Promise<void> {
  try {
    const seqs = await commit(client, batch)
    for (const [index, { resolve }] of batch.entries()) resolve(seqs[index]!)
  } catch (error) {
    for (const { reject } of batch) reject(error)
  }
}

async function commit(client: pg.Client, batch: readonly Waiting[]): Promise<number[]> {
  const sessions = [...new Set(batch.map(({ session }) => session))]
  const tenants = (of: readonly unknown[]) => of.map(() => TENANT)
  const [names, keys] = [batch.map(({ session }) => session), batch.map(({ id }) => keyOf(id))]
  await client.query('begin')
  const locked = await client.query<{ session: string; head: number }>(SESSION_LOCK, [
    tenants(sessions),
    sessions,
  ])
  const seen = await client.query(SESSION_SEEN, [tenants(batch), names, keys])
  if (seen.rowCount !== 0) throw new Error('A message of the bench was there already')
  const heads = new Map(locked.rows.map(({ session, head }) => [session, head]))
  const seqs = names.map((session) => {
    heads.set(session, heads.get(session)! + 1)
    return heads.get(session)!
  })
  const zeros = batch.map(() => 0)
  await client.query(SESSION_WRITE, [
    tenants(sessions),
    sessions,
    sessions.map((session) => heads.get(session)),
    sessions.map(() => null),
    // epoch, asked, answered, replied, failedEpoch, compacting, summarised, nextTrySeq, version
    ...[0, 0, 0, 0, null, null, 0, 0, 0].map((value) => sessions.map(() => value)),
    sessions.map(() => false), // not archived
    sessions.map(() => null), // nothing is replaced
    tenants(batch),
    names,
    seqs,
    keys,
    zeros,
    zeros,
    zeros,
    batch.map(({ id }) => id),
    batch.map(() => null),
    batch.map(({ body }) => body),
    ...[null, null, null, null].map((none) => batch.map(() => none)), // no turn, no answered message, no status, nothing replaced
  ])
  await client.query('commit')
  return seqs
}

function keyOf(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 32)
}
