import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { podsSchema } from '../../src/admin/pod-schemas.ts'
import { createOutput } from '../../src/cli/output.ts'
import { PODS } from '../../src/cli/pods.ts'
import { bury, join, look, take } from '../../src/fleet/pods.ts'
import { valueOf, type Query } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { age, fleetOn, leaderOf, podRows, stateOf, untilBuried } from '../support/fleet.ts'
import { podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'

test('P7: a pod that was counted as dead ends what it did and goes on under a new id', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const fleet = await fleetOn(t, url, database)
  const { id, signal } = fleet.self()!
  const ended = once(signal, 'abort')
  const dead = `update fleetline.pods set state = 'dead', ended_at = clock_timestamp() where id = $1`
  await database.transaction((query) => query(dead, [id]))
  await ended
  await eventually(() => assert.ok((fleet.self()?.id ?? id) > id), { what: 'a new incarnation' })
  assert.equal(fleet.self()!.signal.aborted, false)
  assert.deepEqual([await stateOf(database, id), await stateOf(database, fleet.self()!.id)], ['dead', 'live'])
})

test('a pod that drains gives up its term at once and leaves as dead; another leads under the next term', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const first = await fleetOn(t, url, database)
  const leads = (pod: number) =>
    eventually(async () => assert.equal(await leaderOf(database), pod), { what: `pod ${pod} to lead` })
  const { id } = first.self()!
  await leads(id)
  const second = await fleetOn(t, url, database)
  const before = valueOf(await database.transaction(look), 'no view')
  await first.drain()
  assert.equal(await stateOf(database, id), 'draining')
  await leads(second.self()!.id)
  const after = valueOf(await database.transaction(look), 'no view')
  assert.equal(after.term, before.term + 1)
  await first.stop()
  const [row] = (await podRows(database)).filter(({ pod }) => pod === id)
  assert.deepEqual([row!.state, row!.endedAt instanceof Date], ['dead', true])
})

test('a leader buries who beats no more, within its term, and only while its own beats come through', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const ttlMs = 60_000
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const [silent, leader] = [
    await run((query) => join(query, { name: 'a', version: '0', tracks: [] })),
    await run((query) => join(query, { name: 'b', version: '0', tracks: [] })),
  ]
  const term = (await run((query) => take(query, leader, 0)))!
  const buried = async () => (await run((query) => bury(query, term, ttlMs))).map(({ id }) => id)
  assert.deepEqual(await buried(), [], 'both beat')
  await run((query) => age(query, 2 * ttlMs))
  assert.deepEqual(await buried(), [], 'the database was away: nobody could beat')
  await run((query) => age(query, -2 * ttlMs, leader))
  assert.deepEqual(await buried(), [silent])
  assert.deepEqual(await buried(), [], 'once')
})

test('P1: beside a live leader a silent pod is buried; what lives stays', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const silent = valueOf(
    await database.transaction((query) => join(query, { name: 'silent', version: '0', tracks: [] })),
    'no pod',
  )
  const [first, second] = [await fleetOn(t, url, database), await fleetOn(t, url, database)]
  await untilBuried(database, silent)
  const others = [first.self()!.id, second.self()!.id]
  assert.deepEqual(await Promise.all(others.map((pod) => stateOf(database, pod))), ['live', 'live'])
  assert.equal(await leaderOf(database), others[0])
})

test('a leader does what is for every second every second, however long its beats are', async (t) => {
  const url = await databaseFor(t)
  let runs = 0
  const duty = { name: 'often', everyMs: 900, run: async () => void (runs += 1) }
  await fleetOn(t, url, await openDatabase(t, url), { beatMs: 60_000, ttlMs: 300_000, duties: [duty] })
  await eventually(() => assert.ok(runs > 1), { what: 'two runs within one beat' })
})

test('pods are listed by the operator’s door and by pods ls', async (t) => {
  const { admin } = await podOn(t, await databaseFor(t), { podName: 'alpha' })
  const shown = await eventually(
    async () => {
      const { pods } = podsSchema.parse(await (await fetch(`${admin}/v1/pods`)).json())
      assert.equal(pods[0]?.isLeader, true)
      return pods
    },
    { what: 'the only pod to lead' },
  )
  assert.deepEqual(
    shown.map(({ name, state }) => [name, state]),
    [['alpha', 'live']],
  )
  const said = { out: '', err: '' }
  const sink = (name: 'out' | 'err') => ({ write: (text: string) => (said[name] += text) })
  const output = createOutput(sink('out'), sink('err'), false)
  const call = { flags: { operatorUrl: admin }, args: [], options: {}, output }
  assert.equal(await PODS[0]!.run(call), 0)
  assert.match(said.out, /^\d+\talpha\tlive\ttrue\t\d+\t/)
  const metrics = await (await fetch(`${admin}/metrics`)).text()
  assert.match(metrics, /^fleetline_leader 1$/m)
  assert.match(metrics, /^fleetline_leaderless_seconds_count 1$/m)
  assert.match(metrics, /^fleetline_beat_age_seconds \d/m)
})
