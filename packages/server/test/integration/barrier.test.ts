// L9, on a separate PostgreSQL server that the test crashes. A commit that waited for a standby is visible after the recovery.
// A pod reads nothing until a later commit of its own has succeeded.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { systemClock } from '../../src/lib/clock.ts'
import { runTransaction } from '../../src/store/transaction.ts'
import { atEnd } from '../support/cleanup.ts'
import { startCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { openDatabase, withoutStandby } from '../support/store.ts'

const LIMITS = { deadlineMs: 60_000, lockTimeoutMs: 60_000, idleMs: 60_000 }

test('L9: after a crash of PostgreSQL a pod reads nothing until a commit of its own has succeeded', async (t) => {
  const cluster = await startCluster(15)
  atEnd(t, () => cluster.stop())
  await cluster.admin('create database notes')
  await cluster.admin('create table notes (id int)', 'notes')
  const url = cluster.urlOf('notes')
  const pod = await openDatabase(t, url, { stopMs: 100 })
  const read = (deadlineMs: number) =>
    pod.transaction((query) => query<{ id: number }>('select id from notes'), { access: 'read', deadlineMs })
  assert.deepEqual(await read(60_000), { type: 'committed', value: [] })

  await withoutStandby(pod, url, (text) => cluster.admin(text))
  const hung = pod.transaction((query) => query('insert into notes values (1)'))
  const waiting = () =>
    eventually(
      async () => {
        const { rows } = await cluster.admin(`select pid from pg_stat_activity where wait_event = 'SyncRep'`)
        assert.equal(rows.length, 1)
        return Number(rows[0]!['pid'])
      },
      { what: 'a commit to wait for a standby' },
    )
  const pid = await waiting()
  assert.deepEqual(await read(60_000), { type: 'committed', value: [] }, 'before the crash, reads go on')
  process.kill(pid, 'SIGKILL') // the server ends all connections and recovers
  assert.equal((await hung).type, 'unknown')
  await eventually(async () => void (await cluster.admin('select 1')), { what: 'the recovery' })

  const client = new pg.Client(url)
  await client.connect()
  const blind = await runTransaction(client, (query) => query('select id from notes'), {
    ...LIMITS,
    clock: systemClock(),
    access: 'read',
    admit: () => undefined,
    release: () => undefined,
  })
  await client.end()
  assert.deepEqual(blind, { type: 'committed', value: [{ id: 1 }] }, 'mutant, no barrier: the row is read')
  await eventually(
    async () => {
      assert.equal((await read(500)).type, 'not-committed')
      assert.equal(pod.fault(), 'unconfirmed')
    },
    { what: 'the pod to wait for a standby' },
  )
  assert.equal((await read(500)).type, 'not-committed')
  await cluster.admin('alter database notes reset synchronous_commit')
  await cluster.admin(`select pg_terminate_backend(${await waiting()})`)
  await eventually(
    async () => assert.deepEqual(await read(60_000), { type: 'committed', value: [{ id: 1 }] }),
    { what: 'a read after a commit that succeeds' },
  )
  assert.equal(pod.fault(), undefined)
})
