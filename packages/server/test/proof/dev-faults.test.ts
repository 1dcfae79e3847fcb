// A dev fleet that is killed, and one whose pods are killed, paused and restarted from its page.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Scene } from '../../src/cli/dev/page/wire.ts'
import { databaseFor } from '../support/database.ts'
import {
  ended,
  homeFor,
  nothingRuns,
  PATIENCE_MS,
  processesOf,
  query,
  ready,
  runDev,
  type Said,
} from '../support/dev-fleet.ts'
import { eventually } from '../support/eventually.ts'

test('the processes of a killed fleet end by themselves, and the next start takes over its lock and its data', async (t) => {
  const home = homeFor(t)
  const killed = runDev(t, home, '--pods', '1')
  await ready(killed)
  const left = processesOf(home)
  assert.ok(left.length > 2, `${left.length} processes`)
  await query(home, 'create table kept as select 7 as number')
  killed.kill('SIGKILL')
  const next = runDev(t, home, '--pods', '1') // at once: the server may still be ending
  await ready(next)
  assert.deepEqual(await query(home, 'select number from kept'), [{ number: 7 }])
  await eventually(
    () =>
      assert.deepEqual(
        left.filter((process) => processesOf(home).includes(process)),
        [],
      ),
    {
      what: 'what was left to end',
      patienceMs: PATIENCE_MS,
    },
  )
  next.kill('SIGTERM')
  assert.equal(await ended(next), 0, next.output())
  await nothingRuns(home)
})

test('the page can kill, pause and restart a pod, and a fleet that stops leaves no paused pod', async (t) => {
  const home = homeFor(t)
  const fleet = runDev(t, home, '--database-url', await databaseFor(t), '--pods', '2')
  const [{ page, api }] = (await ready(fleet)) as [Said, ...Said[]]
  const pidOf = (pod: string) => Number(readFileSync(join(home.path, `.fleetline/${pod}.pid`), 'utf8'))
  const isStopped = (pid: number) => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T ')
  const act = async (pod: string, what: string) =>
    (await fetch(`${page}/dev/pods/${pod}/${what}`, { method: 'POST' })).status
  const untilReady = (pod: string, isIt: (pid: number) => boolean) =>
    eventually(
      async () => {
        const { pods } = (await (await fetch(`${page}/dev/scene`)).json()) as Scene
        assert.equal(pods.find(({ name }) => name === pod)!.state, 'ready')
        const pid = pidOf(pod) // 0 while no process runs
        assert.ok(pid > 0 && isIt(pid), `process ${pid}`)
      },
      { what: `${pod} to be ready`, patienceMs: PATIENCE_MS, details: fleet.output },
    )

  const killed = pidOf('pod-1')
  assert.equal(await act('pod-1', 'kill'), 200)
  await untilReady('pod-1', (pid) => pid !== killed)

  const paused = pidOf('pod-2')
  assert.equal(await act('pod-2', 'pause'), 200)
  await eventually(() => assert.ok(isStopped(paused)), { what: 'the pause' })
  const { headers } = await fetch(`${page}/devices/phone/v1/sessions/demo`)
  assert.equal(headers.get('x-fleetline-pod'), 'pod-1')
  assert.equal(await act('pod-2', 'restart'), 200) // the paused pod has to be woken for that
  await untilReady('pod-2', (pid) => pid !== paused)

  assert.equal((await fetch(`${new URL(api!).origin}/dev/scene`)).status, 404) // pods do not serve the page
  assert.equal(await act('pod-2', 'pause'), 200)
  fleet.kill('SIGINT')
  assert.equal(await ended(fleet), 0, fleet.output())
  await nothingRuns(home)
})
