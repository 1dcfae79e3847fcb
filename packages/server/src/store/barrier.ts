// Decides whether this pod may read from a server. After a restart, PostgreSQL shows rows whose commit still waited for a
// standby, and a standby that is promoted may not have them. So when this pod meets a server start that it has not seen, it
// first makes a commit of its own, which succeeds only after those rows are safe (invariant L9).
//
//   this server start   then
//   known               the pod reads at once
//   not known           all callers wait for one commit on a separate connection, and read when it has succeeded
//
// That commit is never cancelled. Without a standby it hangs, and each caller waits until its own deadline.
import type pg from 'pg'
import type { Clock } from '../lib/clock.ts'
import { closeNow, connect } from './connection.ts'
import { valueOf } from './outcome.ts'
import { runTransaction, Unusable } from './transaction.ts'

type Barrier = {
  /** Undefined if the pod may read from this server start. Otherwise a promise that resolves once it may. */
  admit(incarnation: string): Promise<void> | undefined
  isClosed(): boolean
  stop(): void
}
type Deps = {
  readonly databaseUrl: string
  readonly clock: Clock
  readonly connectMs: number
}

const NEVER_MS = 2 ** 31 - 1
const NO_LIMITS = { deadlineMs: NEVER_MS, lockTimeoutMs: 0, idleMs: 0 } // keep-alive detects a server that is gone
const MARK = `select pg_logical_emit_message(true, 'fleetline', '')` // writes no row, but its commit waits for standbys

export function createBarrier({ databaseUrl, clock, connectMs }: Deps): Barrier {
  const known = new Set<string>()
  let [passing, client] = [undefined as Promise<void> | undefined, undefined as pg.Client | undefined]
  const pass = async () => {
    try {
      client = await connect({ databaseUrl, name: 'fleetline barrier', connectMs })
      const incarnation = await writeMark(client, clock)
      known.add(incarnation)
    } catch (cause) {
      throw new Unusable('The server has restarted, and no commit has come through since', { cause })
    } finally {
      if (client) closeNow(client)
      ;[passing, client] = [undefined, undefined]
    }
  }
  return {
    admit: (incarnation) => (known.has(incarnation) ? undefined : (passing ??= pass())),
    isClosed: () => passing !== undefined,
    stop: () => client && closeNow(client),
  }
}

/** Returns the server start that committed it: this connection may lead to another server than the caller's. */
async function writeMark(client: pg.Client, clock: Clock): Promise<string> {
  let where = ''
  const outcome = await runTransaction(client, (query) => query(MARK), {
    ...NO_LIMITS,
    clock,
    access: 'write',
    admit: (incarnation) => {
      where = incarnation
      return undefined
    },
    release: () => undefined,
  })
  valueOf(outcome, 'The mark was not committed')
  return where
}
