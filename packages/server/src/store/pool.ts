// The pod's connections. Writes may use all but two of them, and always at least one. A COMMIT that waits for a standby keeps
// its connection until the standby returns; meanwhile reads go on. Stop lets running transactions end. After `stopMs` it
// closes the sockets that are left: a transaction in COMMIT then ends as unknown, every other one as not committed.
import { once } from 'node:events'
import pg from 'pg'
import { within, type Clock } from '../lib/clock.ts'
import { createSlots } from '../lib/waiters.ts'
import { withoutAliases } from './client.ts'
import { closeNow } from './connection.ts'
import type { Access } from './outcome.ts'
import { LATE } from './transaction.ts'

export type CheckedOut = { readonly client: pg.PoolClient; readonly release: (close: boolean) => void }
type Pool = {
  /** Waits at most `deadlineMs` for a slot and a connection together. */
  checkOut(access: Access, deadlineMs: number): Promise<CheckedOut>
  counts(): { readonly open: number; readonly idle: number; readonly awaited: number }
  /** How long the first waiting caller has waited; 0 if nobody waits. */
  longestWaitMs(): number
  end(): Promise<void>
}
type Deps = {
  readonly databaseUrl: string
  readonly poolSize: number
  readonly transactionDeadlineMs: number
  readonly stopMs: number
  readonly clock: Clock
}

const FOR_READS = 2

/** Closes its socket if it cannot connect. pg's pool leaves the socket open, and the process would wait until PostgreSQL closes it. */
class PooledClient extends pg.Client {
  override connect(): Promise<pg.Client>
  override connect(onEnd: (error: Error) => void): void
  override connect(onEnd?: (error: Error) => void): Promise<pg.Client> | void {
    if (!onEnd) return super.connect()
    super.connect((error: Error | null) => {
      if (error) closeNow(this)
      onEnd(error as Error)
    })
  }
}

export function createPool({ databaseUrl, poolSize, transactionDeadlineMs, clock, stopMs }: Deps): Pool {
  const pool = new pg.Pool({
    connectionString: withoutAliases(databaseUrl),
    max: poolSize,
    connectionTimeoutMillis: transactionDeadlineMs,
    keepAlive: true,
    application_name: 'fleetline',
    Client: PooledClient,
  })
  pool.on('error', () => undefined) // an idle connection broke; the pool has already removed it
  // A connection can break after the pool has handed it out and before the transaction listens. Without this listener, the
  // error would end the process.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const slots = {
    write: createSlots(Math.max(1, poolSize - FOR_READS)),
    read: createSlots(poolSize),
  }
  const waits = new Set<{ readonly sinceMs: number }>()
  const enter = (access: Access, deadlineMs: number) => {
    const over = new AbortController()
    const entering = slots[access].take(over.signal)
    return within(clock, deadlineMs, entering, LATE).finally(() => over.abort(LATE))
  }
  const connect = (deadlineMs: number) => {
    const connecting = pool.connect()
    return within(clock, deadlineMs, connecting, LATE).catch((error: unknown) => {
      connecting.then((client) => client.release()).catch(() => undefined) // it came too late: give it back
      throw error
    })
  }
  const checkOut = async (access: Access, deadlineMs: number): Promise<CheckedOut> => {
    const endMs = clock.monotonicMs() + deadlineMs
    const leave = await enter(access, deadlineMs)
    try {
      const client = await connect(endMs - clock.monotonicMs())
      const release = (close: boolean) => {
        client.release(close)
        leave()
      }
      return { client, release }
    } catch (error) {
      leave()
      throw error
    }
  }
  return {
    checkOut: async (access, deadlineMs) => {
      const wait = { sinceMs: clock.monotonicMs() }
      waits.add(wait)
      return checkOut(access, deadlineMs).finally(() => waits.delete(wait))
    },
    counts: () => ({ open: pool.totalCount, idle: pool.idleCount, awaited: waits.size }),
    longestWaitMs: () => {
      const [first] = waits
      return first ? clock.monotonicMs() - first.sinceMs : 0
    },
    end: endOf(pool, { clock, stopMs }),
  }
}

function endOf(pool: pg.Pool, { clock, stopMs }: Pick<Deps, 'clock' | 'stopMs'>): () => Promise<void> {
  const open = new Set<pg.PoolClient>()
  pool.on('connect', (client) => open.add(client))
  pool.on('remove', (client) => open.delete(client))
  const emptied = async () => {
    await pool.end()
    while (open.size > 0) await once(pool, 'remove') // pool.end() resolves before the sockets are closed
  }
  const endPool = async () => {
    const ended = emptied()
    await within(clock, stopMs, ended, LATE).catch(async (error: unknown) => {
      if (error !== LATE) throw error
      open.forEach(closeNow)
      await ended
    })
  }
  let ending: Promise<void> | undefined
  return () => (ending ??= endPool())
}
