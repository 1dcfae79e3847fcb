// PgBouncer from Debian, in transaction mode, in front of PostgreSQL. Migrations and messages go through it while the server
// crashes. No acknowledged message is lost, and the pod reports that hints do not reach it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { migrateUp, migrationFiles } from '../../src/store/migrate.ts'
import { reportSchema } from '../../src/admin/readiness.ts'
import { atEnd } from '../support/cleanup.ts'
import { account, newFolder, startCluster, type Cluster } from '../support/cluster.ts'
import { needPrograms } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { podOn } from '../support/pod.ts'
import { proofSize } from '../support/proof-size.ts'

const CRASHES = proofSize({ full: 6, quick: 2 })
const WRITERS = 8

async function bouncerFor(t: TestContext, cluster: Cluster): Promise<string> {
  needPrograms({ pgbouncer: 'pgbouncer' })
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  const folder = newFolder()
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    default_pool_size: 4,
    server_login_retry: 0.2,
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
  const file = join(folder, 'pgbouncer.ini')
  const target = `f = host=${cluster.folder} dbname=f user=postgres`
  writeFileSync(file, ['[databases]', target, '[pgbouncer]', ...lines, ''].join('\n'))
  const bouncer = spawn('/usr/sbin/pgbouncer', ['-q', file], { ...account(), stdio: 'ignore' })
  atEnd(t, async () => {
    bouncer.kill('SIGKILL')
    if (bouncer.exitCode === null && bouncer.signalCode === null) await once(bouncer, 'exit')
  })
  return `postgres://postgres@127.0.0.1:${port}/f`
}

test('through PgBouncer in transaction mode no acknowledged message is lost while the server crashes', async (t) => {
  const cluster = await startCluster(15)
  atEnd(t, () => cluster.stop())
  await cluster.admin('create database f')
  const url = await bouncerFor(t, cluster)
  const applied = await eventually(() => migrateUp({ databaseUrl: url }), { what: 'PgBouncer to answer' })
  assert.deepEqual(
    applied,
    migrationFiles().map(({ name }) => name),
  )
  const { gateway, admin } = await podOn(t, url, { transactionDeadlineMs: '5000' })
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${gateway}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return { isOk: answer.ok, body: (await answer.json()) as { session: string; id: string } }
  }
  const { session } = (await post('/v1/sessions', {})).body
  const acked = new Set<string>()
  let isOver = false
  const write = async () => {
    while (!isOver) {
      const { isOk, body } = await post(`/v1/sessions/${session}/messages`, { text: 'hello' })
      if (isOk) acked.add(body.id)
    }
  }
  const load = Promise.all(Array.from({ length: WRITERS }, write))
  for (let crash = 0; crash < CRASHES; crash += 1) {
    const before = acked.size
    await eventually(() => assert.ok(acked.size > before + 20), { what: 'writes to flow' })
    const { rows } = await cluster.admin(`select pid from pg_stat_activity where datname = 'f' limit 1`)
    process.kill(Number(rows[0]!['pid']), 'SIGKILL')
  }
  const before = acked.size
  await eventually(() => assert.ok(acked.size > before + 20), { what: 'writes after the last crash' })
  isOver = true
  await load
  const { rows } = await cluster.admin('select id from fleetline.messages', 'f')
  const stored = new Set(rows.map(({ id }) => id as string))
  const lost = [...acked].filter((id) => !stored.has(id))
  t.diagnostic(`figure acked ${acked.size}`)
  assert.deepEqual(lost, [])
  await eventually(
    async () => {
      const { checks } = reportSchema.parse(await (await fetch(`${admin}/readyz`)).json())
      assert.match(checks['hints']?.reason ?? '', /pooler/)
    },
    { what: 'the pod to miss its own hints' },
  )
})
