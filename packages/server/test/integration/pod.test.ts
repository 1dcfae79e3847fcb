import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openapiSchema } from '../../src/door/openapi.ts'
import { reportSchema, type ReadinessReport } from '../../src/admin/readiness.ts'
import type { Pod } from '../../src/pod.ts'
import { migrationFiles, outsideWindow } from '../../src/store/migrate.ts'
import { admin, databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { newPod } from '../support/pod.ts'
import { proxyFor } from '../support/proxy.ts'
import { openDatabase } from '../support/store.ts'

async function ready(pod: Pod): Promise<{ status: number; report: ReadinessReport }> {
  const answer = await fetch(`http://127.0.0.1:${pod.ports().admin}/readyz`)
  return { status: answer.status, report: reportSchema.parse(await answer.json()) }
}

test('a healthy pod reports every check by name, and serves its API description and metrics', async (t) => {
  const pod = newPod(t, await databaseFor(t))
  await pod.start()
  const { report } = await eventually(
    async () => {
      const said = await ready(pod)
      assert.equal(said.status, 200)
      assert.equal(said.report.checks['hints']?.state, 'ok')
      return said
    },
    { what: 'the pod to be ready and to listen' },
  )
  assert.deepEqual(Object.keys(report.checks), [
    'database',
    'schema',
    'beat',
    'hints',
    'pool',
    'loop',
    'draining',
  ])
  for (const [name, { ageMs }] of Object.entries(report.checks)) assert.ok(ageMs >= 0, `${name}: ${ageMs} ms`)
  const { gateway, admin } = pod.ports()
  const alive = await fetch(`http://127.0.0.1:${admin}/livez`)
  assert.equal(alive.status, 200)
  assert.deepEqual(await alive.json(), { state: 'ok' })
  for (const port of [gateway, admin]) {
    const document = openapiSchema.parse(
      await (await fetch(`http://127.0.0.1:${port}/v1/openapi.json`)).json(),
    )
    assert.ok('/v1/openapi.json' in document.paths)
    assert.equal('/readyz' in document.paths, port === admin)
  }
  const metrics = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text()
  assert.match(metrics, /^fleetline_transactions_total\{outcome="committed"\} [1-9]/m)
  assert.match(metrics, /^fleetline_http_requests_total\{door="admin",route="\/readyz",status="200"\} [1-9]/m)
  assert.match(metrics, /^fleetline_hint_connections_total 1$/m)
})

test('a pod that is cut off from PostgreSQL is not ready and says why; when connected again, it is ready', async (t) => {
  const url = await databaseFor(t)
  const proxy = await proxyFor(t, url)
  const pod = newPod(t, proxy.url)
  await pod.start()
  proxy.refuse(true)
  proxy.reset()
  const patienceMs = 60_000
  const { report } = await eventually(
    async () => {
      const said = await ready(pod)
      assert.equal(said.status, 503)
      return said
    },
    { what: 'the pod to miss its database', patienceMs },
  )
  assert.equal(report.checks['database']?.state, 'failing')
  assert.equal(report.checks['hints']?.state, 'degraded')
  const alive = await fetch(`http://127.0.0.1:${pod.ports().admin}/livez`)
  assert.equal(alive.status, 200, 'a restart would not help')
  proxy.refuse(false)
  await eventually(
    async () => {
      const { report: back } = await ready(pod)
      assert.equal(back.state, 'ok')
      assert.equal(back.checks['hints']?.state, 'ok')
    },
    { what: 'the pod to be ready again', patienceMs },
  )
})

test('a pod does not start on a schema that it was not written for, and says what to do', async (t) => {
  const empty = newPod(t, await databaseFor(t, 'template1'))
  await assert.rejects(empty.start(), /The schema is at 0, .*Run fleetline migrate up/)
  const url = await databaseFor(t)
  const last = migrationFiles().at(-1)!.number
  const database = await openDatabase(t, url)
  const add = (number: number, podsFrom: number) =>
    database.transaction((query) =>
      query(
        `insert into fleetline.migrations (number, name, checksum, pods_from) values ($1, 'later', '', $2)`,
        [number, podsFrom],
      ),
    )
  await add(last + 1, last)
  await add(last + 2, last)
  const beside = newPod(t, url)
  await beside.start()
  await add(last + 3, last + 1)
  await eventually(
    async () => {
      const { report } = await ready(beside)
      assert.deepEqual(
        report.checks['schema']?.reason,
        outsideWindow({ last: last + 3, podsFrom: last + 1 }, last),
      )
    },
    { what: 'the pod to see that the schema has left it behind' },
  )
  await assert.rejects(newPod(t, url).start(), /Deploy a newer release/)
})

test('P5: a pod whose server takes no writes is not ready and says why; when it takes writes again, it is ready', async (t) => {
  const url = await databaseFor(t)
  const name = url.split('/').at(-1)!
  const pod = newPod(t, url)
  await pod.start()
  const switchTo = async (change: string) => {
    await admin(`alter database ${name} ${change}`)
    await admin(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`)
  }
  await switchTo('set default_transaction_read_only = on')
  const { report } = await eventually(
    async () => {
      const said = await ready(pod)
      assert.equal(said.status, 503)
      return said
    },
    { what: 'the pod to notice' },
  )
  assert.match(report.checks['database']!.reason!, /standby/)
  await switchTo('reset default_transaction_read_only')
  await eventually(async () => assert.equal((await ready(pod)).status, 200), { what: 'the pod to be ready' })
})

test('R1: a pod that stops is not ready first; meanwhile it answers, and asks clients to disconnect', async (t) => {
  const pod = newPod(t, await databaseFor(t), { unreadyMs: '4000' })
  await pod.start()
  const { gateway } = pod.ports()
  const stopping = pod.stop()
  const { status, report } = await ready(pod)
  assert.equal(status, 503)
  assert.equal(report.checks['draining']?.state, 'failing')
  const answer = await fetch(`http://127.0.0.1:${gateway}/v1/sessions`)
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('connection'), 'close')
  await Promise.all([stopping, pod.stop()])
  await assert.rejects(fetch(`http://127.0.0.1:${gateway}/v1/sessions`))
})
