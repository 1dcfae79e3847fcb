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
import { bury as buryPod, fleetOn, leaderOf, podRows, stateOf, stepClock } from '../support/fleet.ts'
import { silentLog } from '../support/log.ts'
import { podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'

test('P7: a pod that was counted as dead aborts its work and continues under a new id', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const fleet = await fleetOn(t, url, database)
  const { id, signal } = fleet.self()!
  const ended = once(signal, 'abort')
  const dead = `update fleetline.pods set state = 'dead', ended_at = clock_timestamp() where id = $1`
  await database.transaction((query) => query(dead, [id]))
  await ended
  await eventually(
    () => {
      const current = fleet.self()?.id ?? id
      assert.ok(current > id, `pod ${current}, before ${id}`)
    },
    { what: 'a new incarnation' },
  )
  assert.equal(fleet.self()!.signal.aborted, false)
  assert.equal(await stateOf(database, id), 'dead')
  assert.equal(await stateOf(database, fleet.self()!.id), 'live')
})

test('when the leader drains, another pod leads under the next term; when it stops, it counts as dead', async (t) => {
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
  assert.equal(row!.state, 'dead')
  assert.ok(row!.endedAt instanceof Date, String(row!.endedAt))
})

test('a beat corrects the row if a write of a drain failed, or came after the drain was taken back', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  let isAway = false
  const failing: typeof database.transaction = async (...given) =>
    isAway ? ({ type: 'failed', error: new Error('away') } as never) : database.transaction(...given)
  const fleet = await fleetOn(t, url, { transaction: failing })
  const { id } = fleet.self()!
  const untilState = (state: string) =>
    eventually(async () => assert.equal(await stateOf(database, id), state), { what: `the state ${state}` })
  isAway = true
  await fleet.drain()
  isAway = false
  await untilState('draining')
  fleet.undrain()
  await untilState('live')
  const late = `update fleetline.pods set state = 'draining' where id = $1`
  await database.transaction((query) => query(late, [id]))
  await untilState('live')
})

test('a pod that is counted as dead while it is drained goes on draining under its new id, and can be undrained', async (t) => {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const asked: boolean[] = []
  const onDrainAsked = (isAsked: boolean) => {
    asked.push(isAsked)
    if (isAsked) void fleet.drain()
    else fleet.undrain()
  }
  const fleet = await fleetOn(t, url, database, { onDrainAsked })
  const ask = async (isAsked: boolean) => {
    const text = 'update fleetline.pods set drain_asked = $2 where id = $1'
    await database.transaction((query) => query(text, [fleet.self()!.id, isAsked]))
    await eventually(() => assert.equal(asked.at(-1), isAsked), { what: `${isAsked}` })
  }
  await ask(true)
  const { id, signal } = fleet.self()!
  await buryPod(database, id)
  await eventually(() => assert.ok((fleet.self()?.id ?? id) > id), { what: 'its new life' })
  assert.deepEqual([signal.aborted, await stateOf(database, fleet.self()!.id)], [true, 'draining'])
  await ask(false)
  await eventually(async () => assert.equal(await stateOf(database, fleet.self()!.id), 'live'), {
    what: 'live',
  })
  assert.deepEqual(asked, [true, false])
})

const LIMITS = { beatMs: 1_000, ttlMs: 5_000 }

/** A leader, a pod that beats and one that does not. The leader looks after each beat; its clock is moved by hand. */
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

test('P1: a pod counts as dead after a ttl without a beat and not before, whatever the database’s clock does', async (t) => {
  for (const stepMs of [0, 10_000, -10_000, 3_600_000, -3_600_000]) {
    const fleet = await watched(t)
    await fleet.beats(2)
    await fleet.run((query) => stepClock(query, stepMs))
    await fleet.beats(3)
    assert.deepEqual(await fleet.states(), ['live', 'live', 'live'], `${stepMs}: silent for less than a ttl`)
    await fleet.beats(4)
    assert.deepEqual(await fleet.states(), ['live', 'live', 'dead'], `${stepMs}: silent for a ttl`)
    assert.equal(fleet.isLeader(), true, `${stepMs}: the first pod leads`)
  }
})

test('P1: a pod that beats after the leader has looked is not counted as dead', async (t) => {
  const { run, dead } = await watched(t)
  const { term, members } = await run(look)
  const taken = (await run((query) => take(query, members[0]!.id, term)))!
  await run((query) => beat(query, dead))
  assert.deepEqual(await run((query) => bury(query, taken, members)), [members[0]!.id, members[1]!.id])
  assert.deepEqual(
    await run((query) => bury(query, { ...taken, term: term - 1 }, members)),
    [],
    'a leader of an older term buries nobody',
  )
})

test('a pod takes over from a silent leader after a ttl and not before, whatever the database’s clock does', async (t) => {
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

test('a leader runs a duty at its own interval, however rare its beats are', async (t) => {
  const url = await databaseFor(t)
  let runs = 0
  const duty = { name: 'often', everyMs: 900, run: async () => void (runs += 1) }
  await fleetOn(t, url, await openDatabase(t, url), { beatMs: 60_000, ttlMs: 300_000, duties: [duty] })
  await eventually(() => assert.ok(runs > 1, `${runs} runs`), { what: 'two runs within one beat' })
})

test('the operator port and pods ls list the pods, and the metrics show the leader', async (t) => {
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
    shown.map(({ name, state }) => ({ name, state })),
    [{ name: 'alpha', state: 'live' }],
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
