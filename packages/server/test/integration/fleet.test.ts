import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import { podsSchema } from '../../src/admin/pod-schemas.ts'
import { createOutput } from '../../src/cli/output.ts'
import { PODS } from '../../src/cli/pods.ts'
import { createLeader } from '../../src/fleet/leader.ts'
import { beat, bury, join, look, take } from '../../src/fleet/pods.ts'
import { createTrust } from '../../src/fleet/trust.ts'
import { valueOf, type Query } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { manualClock } from '../support/clock.ts'
import { fleetOn, leaderOf, podRows, stateOf, stepClock } from '../support/fleet.ts'
import { silentLog } from '../support/log.ts'
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

const LIMITS = { beatMs: 1_000, ttlMs: 5_000 }

/** Two pods of which one beats, and a leader that looks after each beat; its clock is moved by hand. */
async function watched(t: TestContext) {
  const database = await openDatabase(t, await databaseFor(t))
  const clock = manualClock()
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const newPod = () => run((query) => join(query, { name: 'test', version: '0', tracks: [] }))
  const [me, healthy, dead] = [await newPod(), await newPod(), await newPod()]
  const trust = createTrust(LIMITS, clock)
  const leader = createLeader({ ...LIMITS, clock, trust, metrics: createMetrics(), log: silentLog() })
  return {
    run,
    dead,
    beats: async (count: number) => {
      for (let n = 0; n < count; n += 1) {
        await clock.advance(LIMITS.beatMs)
        for (const id of [me, healthy]) await run((query) => beat(query, id))
        trust.confirm(clock.monotonicMs())
        await run((query) => leader.follow(query, me))
      }
    },
    states: () => Promise.all([me, healthy, dead].map((id) => stateOf(database, id))),
    isLeader: () => leader.term() !== undefined,
  }
}

test('P1: who does not beat for a ttl is buried, and nobody before, whatever the database’s clock does', async (t) => {
  for (const stepMs of [0, 10_000, -10_000, 3_600_000, -3_600_000]) {
    const fleet = await watched(t)
    await fleet.beats(2)
    await fleet.run((query) => stepClock(query, stepMs))
    await fleet.beats(3)
    assert.deepEqual(await fleet.states(), ['live', 'live', 'live'], `${stepMs}: silent for less than a ttl`)
    await fleet.beats(4)
    assert.deepEqual(await fleet.states(), ['live', 'live', 'dead'], `${stepMs}: silent for a ttl`)
    assert.ok(fleet.isLeader())
  }
})

test('P1: a beat that came after the leader’s look is seen by its burial', async (t) => {
  const { run, dead } = await watched(t)
  const { term, members } = await run(look)
  const taken = (await run((query) => take(query, members[0]!.id, term)))!
  await run((query) => beat(query, dead))
  assert.deepEqual(await run((query) => bury(query, taken, members)), [members[0]!.id, members[1]!.id])
  assert.deepEqual(
    await run((query) => bury(query, { ...taken, term: term - 1 }, members)),
    [],
    'an old term',
  )
})

test('a leader that silent pods have had before takes the next term, whatever the database’s clock does', async (t) => {
  for (const stepMs of [3_600_000, -3_600_000]) {
    const fleet = await watched(t)
    await fleet.run((query) => take(query, fleet.dead, 0))
    await fleet.beats(2)
    await fleet.run((query) => stepClock(query, stepMs))
    await fleet.beats(4)
    assert.equal(fleet.isLeader(), false)
    await fleet.beats(4)
    assert.equal(fleet.isLeader(), true)
  }
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
