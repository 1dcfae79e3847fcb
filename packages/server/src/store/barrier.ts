// Which server may be read from. After a restart, rows are visible whose commit still waited for a standby, and which a
// standby that is promoted may not have. So a commit of our own must first come through behind them, on every start of a
// server that this pod has not seen (invariants L9).
//
//   this start   then
//   known        it is read from at once
//   not known    everybody waits for one commit, on a connection of its own, and reads once that is through
//
// That commit is never cancelled: without a standby it hangs, and whoever waits here does so until its own deadline.
import type pg from 'pg'
import type { Clock } from '../lib/clock.ts'
import { closeNow, connect } from './connection.ts'
import { valueOf } from './outcome.ts'
import { runTransaction, Unusable } from './transaction.ts'

type Barrier = {
  /** Nothing if that start of a server may be read from; else what ends once it may be. */
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
const NO_LIMITS = { deadlineMs: NEVER_MS, lockTimeoutMs: 0, idleMs: 0 } // keep-alive finds a server that is gone
const MARK = `select pg_logical_emit_message(true, 'fleetline', '')` // it writes no row, and waits for standbys like one

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

/** Answers at which start of which server it was committed: the connection may lead elsewhere than its caller's. */
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
