// Opens parts of the store for a test and closes them when it ends. Their limits are so long that even a busy machine stays
// within them.
import assert from 'node:assert/strict'
import { systemClock } from '../../src/lib/clock.ts'
import { createDatabase, type Database } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd, type Scope } from './cleanup.ts'
import { admin } from './database.ts'
import { eventually } from './eventually.ts'

export async function openDatabase(
  t: Scope,
  url: string,
  { stopMs = 60_000, lockTimeoutMs = 60_000, idleTransactionMs = 120_000 } = {},
): Promise<Database> {
  const database = createDatabase({
    databaseUrl: url,
    poolSize: 6,
    transactionDeadlineMs: 120_000,
    idleTransactionMs,
    lockTimeoutMs,
    stopMs,
    clock: systemClock(),
    metrics: createMetrics(),
  })
  atEnd(t, () => database.stop())
  await database.start()
  return database
}

/** From now on the database's commits wait for a standby, and there is none. Before that, `db` runs a transaction, so that it
 *  knows the server. Otherwise reads would wait too. */
export async function withoutStandby(
  db: Database,
  url: string,
  run: (text: string) => Promise<unknown> = admin,
): Promise<string> {
  const name = url.split('/').at(-1)!
  await db.transaction((query) => query('select 1'))
  await run(`alter database ${name} set synchronous_commit = on`)
  await run(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and pid <> pg_backend_pid()`,
  )
  await eventually(
    async () => assert.equal((await db.transaction((query) => query('select 1'))).type, 'committed'),
    {
      what: 'a connection that waits for standbys',
    },
  )
  return name
}
