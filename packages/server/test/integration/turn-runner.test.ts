// Attempts of a turn, one by one: how each ends when it is overtaken, when its pod stops, and when PostgreSQL is away.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { agent, type AgentDefinition } from '../../src/agent/agent.ts'
import { loadConfig } from '../../src/config.ts'
import { join } from '../../src/fleet/pods.ts'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { eraseMessages } from '../../src/session/erase.ts'
import { createLive } from '../../src/session/live.ts'
import { createReplay } from '../../src/session/replay.ts'
import { createTurnView } from '../../src/session/turn-view.ts'
import type { Database } from '../../src/store/database.ts'
import type { Claim } from '../../src/task/claim.ts'
import type { Permits } from '../../src/task/runner.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { createTurnMachines } from '../../src/turn/turn.ts'
import { createUsageList } from '../../src/usage/list.ts'
import { createUsageRecorder } from '../../src/usage/record.ts'
import { atEnd } from '../support/cleanup.ts'
import { manualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/log.ts'
import { conversationOn, driversOf } from '../support/turns.ts'
import { downstreamsOn } from '../support/throttle.ts'

async function* saying(text: string) {
  yield { type: 'text-start', id: '1' }
  yield { type: 'text-delta', id: '1', delta: text }
  yield { type: 'finish' }
}

const KEY = 'provider/account'

type Given = {
  readonly pod?: number
  readonly database?: Pick<Database, 'transaction'>
  readonly isFenced?: boolean
  readonly clock?: Clock
  readonly permits?: Permits
}

async function attemptsOn(t: TestContext) {
  const talk = await conversationOn(t)
  const [random, metrics] = [systemRandom(), createMetrics()]
  const log = silentLog()
  const begin = (
    claim: Claim,
    answer: AgentDefinition['answer'],
    {
      pod = talk.pod,
      database = talk.database,
      isFenced = false,
      clock = systemClock(),
      permits = downstreamsOn(clock).permits,
    }: Given = {},
  ) => {
    const live = createLive({
      ...createTurnView({ database, cell: 0 }),
      ...loadConfig({ environment: {} }),
      database,
      hints: { listen: () => () => undefined },
      clock,
      random,
      log,
      metrics,
    })
    atEnd(t, () => live.stop())
    const sessions = { ...createReplay({ database, cell: 0 }), ...driversOf(database, talk.key), ...live }
    const agents = { agentFor: async () => ({ ...agent('demo', answer), downstream: KEY }) }
    const [ending, draining, gaveUp] = [new AbortController(), new AbortController(), new AbortController()]
    const around = {
      clock,
      random,
      cell: 0,
      log,
      metrics,
      ending,
      pod,
      isFenced: () => isFenced,
      draining: draining.signal,
      gaveUp: gaveUp.signal,
      record: async () => assert.fail('the session ends it'),
      permits,
    }
    const halts = { enter: () => ({ leave: () => undefined, halt: () => undefined }) }
    const usage = createUsageRecorder({ database })
    const parts = { database, sessions, agents, halts, usage, clock, random, metrics }
    const [turn] = createTurnMachines({ ...parts, cell: 0, agentFirstMs: 30_000, agentSilenceMs: 60_000 })
    const { run } = turn!.open()
    void live.start()
    return { ended: run(claim, around), ending, draining, gaveUp }
  }
  return { ...talk, begin }
}

test('E9: an attempt that was overtaken reports late what it has used', async (t) => {
  const { ask, begin, claimTurn, run, database } = await attemptsOn(t)
  await ask('a')
  const [called, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const step = (inputTokens: number) => ({ type: 'data-usage', id: '1', data: { usage: { inputTokens } } })
  const lost = await claimTurn()
  const answer = async function* () {
    called.resolve()
    await free.promise
    yield* [step(30), { type: 'finish' }]
  }
  const zombie = begin(lost, answer, { clock: manualClock() })
  await called.promise
  const fault = `jsonb_build_object('code', 'pod_lost', 'attempt', 1)`
  await run((query) =>
    query(`update fleetline.tasks set state = 'ready', pod = null, error = fleetline.fault(error, ${fault})`),
  )
  const pod = await run((query) => join(query, { name: 'other', version: '0', tracks: [] }))
  const living = async function* () {
    yield* [step(5), { type: 'finish' }]
  }
  const again = begin(await claimTurn(pod), living, { pod })
  assert.deepEqual(await again.ended, { type: 'done', answer: 'settled' })
  const { ofTurn } = createUsageList({ database })
  const usage = async () =>
    (await ofTurn(1, lost.id)).map(({ attempt, outcome, inputTokens }) => [attempt, outcome, inputTokens])
  assert.deepEqual(await usage(), [
    [1, 'lost', null],
    [2, 'done', 5],
  ])
  free.resolve()
  assert.deepEqual(await zombie.ended, { type: 'done', answer: 'fenced' })
  assert.deepEqual(await usage(), [
    [1, 'fenced', 30],
    [2, 'done', 5],
  ])
})

test('E1: an attempt that was overtaken is fenced when it ends, and when it begins', async (t) => {
  const { ask, begin, claimTurn, rows, run } = await attemptsOn(t)
  await ask('a')
  const [called, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const lost = await claimTurn()
  const answer = async () => {
    called.resolve()
    await free.promise
    return saying('of the dead')
  }
  // Its clock stands still, so that its end is written before its chunks. The next test is about the chunks.
  const zombie = begin(lost, answer, { clock: manualClock() })
  await called.promise
  await run((query) => query(`update fleetline.tasks set state = 'ready', pod = null`))
  const pod = await run((query) => join(query, { name: 'other', version: '0', tracks: [] }))
  const again = begin(await claimTurn(pod), () => saying('of the living'), { pod })
  assert.deepEqual(await again.ended, { type: 'done', answer: 'settled' })
  const after = await rows()
  free.resolve()
  assert.deepEqual(await zombie.ended, { type: 'done', answer: 'fenced' })
  const late = await begin(lost, () => assert.fail('the agent was called')).ended
  assert.equal(late.type, 'failed')
  assert.match(JSON.stringify(late), /fenced/)
  assert.deepEqual(await rows(), after)
  assert.equal(after.messages.length, 2)
})

test('E1: an attempt that is overtaken while its agent speaks is fenced by its chunks, and closes the call', async (t) => {
  const { ask, begin, claimTurn, rows, run } = await attemptsOn(t)
  await ask('a')
  const told = Promise.withResolvers<void>()
  const claim = await claimTurn()
  const zombie = begin(claim, async function* ({ signal }) {
    signal.addEventListener('abort', () => told.resolve())
    yield { type: 'text-start', id: '1' }
    await run((query) => query(`update fleetline.tasks set state = 'ready', pod = null`))
    await claimTurn()
    yield { type: 'text-delta', id: '1', delta: 'of the dead' }
    await new Promise(() => undefined)
  })
  assert.deepEqual(await zombie.ended, { type: 'failed', answer: 'fenced' })
  await told.promise
  assert.equal((await rows()).messages.length, 1)
  const said = await run((query) => query(`select from fleetline.chunks where body ~ 'dead'`))
  assert.equal(said.length, 0)
})

test('a pod that stops or is fenced hands the turn back, and stores nothing of it', async (t) => {
  const { ask, begin, claimTurn, rows } = await attemptsOn(t)
  await ask('a')
  const claim = await claimTurn()
  const called = Promise.withResolvers<void>()
  const stopped = begin(claim, async function* () {
    yield { type: 'text-start', id: '1' }
    called.resolve()
    await new Promise(() => undefined)
  })
  await called.promise
  stopped.ending.abort(new Error('drain'))
  assert.deepEqual(await stopped.ended, { type: 'back' })
  const fenced = begin(claim, () => assert.fail('the agent was called'), { isFenced: true })
  assert.deepEqual(await fenced.ended, { type: 'back' })
  assert.equal((await rows()).messages.length, 1)
})

test('a turn that waits for a permit is handed back when its pod drains or ends it; a turn whose agent speaks goes on', async (t) => {
  const { ask, begin, claimTurn, rows } = await attemptsOn(t)
  await ask('a')
  const claim = await claimTurn()
  const clock = manualClock() // it stands still, so no wait times out
  const downstreams = downstreamsOn(clock, { offer: { isLearnt: true, share: 1 } })
  const { permits } = downstreams
  const to = downstreams.get(KEY)
  const taken = Promise.withResolvers<void>()
  const other = to.run(() => taken.promise)
  for (const what of ['draining', 'ending'] as const) {
    const waits = begin(claim, () => assert.fail('the agent was called'), { clock, permits })
    await eventually(() => assert.equal(to.standing().waiting, 1), { what: 'its wait' })
    waits[what].abort(new Error(what))
    assert.deepEqual(await waits.ended, { type: 'back' })
    assert.equal(to.standing().waiting, 0)
  }
  taken.resolve()
  await other
  const speaks = begin(claim, () => (speaks.draining.abort(new Error('drain')), saying('hello')), { permits })
  assert.deepEqual(await speaks.ended, { type: 'done', answer: 'settled' })
  assert.equal((await rows()).messages.length, 2)
  assert.equal(to.standing().held, 0)
})

test('S35: a message that is erased before its agent is called does not reach it, and neither does its summary', async (t) => {
  const { ask, begin, claimTurn, database, key, run, rows } = await attemptsOn(t)
  await ask('secret')
  await ask('b')
  const claim = await claimTurn()
  await run(async (query) => {
    await query(
      `insert into fleetline.summaries (tenant, session, upto, text) values ($1, $2, 1, 'secret')`,
      [key.tenant, key.session],
    )
    await query('update fleetline.sessions set summarised = 1 where id = $1', [key.session])
  })
  let calls = 0
  const erasing: Pick<Database, 'transaction'> = {
    transaction: async (work, options) => {
      calls += 1
      if (calls === 2) await run((query) => eraseMessages(query, key, [1])) // between the check and the read of the log
      return database.transaction(work, options)
    },
  }
  const clock = manualClock()
  const downstreams = downstreamsOn(clock, { offer: { isLearnt: true, share: 1 } })
  const { permits } = downstreams
  const to = downstreams.get(KEY)
  const taken = Promise.withResolvers<void>()
  const other = to.run(() => taken.promise)
  const asked: unknown[][] = []
  const answer: AgentDefinition['answer'] = ({ messages }) => {
    asked.push(messages.map(({ id, parts }) => [id, parts.length]))
    return saying('hello')
  }
  const waits = begin(claim, answer, { database: erasing, clock, permits })
  await eventually(() => assert.equal(to.standing().waiting, 1), { what: 'its wait' })
  await ask('late')
  await run((query) => query('update fleetline.turns set read_to = 3'))
  await run((query) => eraseMessages(query, key, [2]))
  await clock.advance(100)
  taken.resolve()
  await other
  assert.deepEqual(await waits.ended, { type: 'done', answer: 'settled' })
  assert.deepEqual(asked, [[['late', 1]]])
  assert.equal((await rows()).messages.length, 4)
  assert.equal(to.standing().held, 0)
})

test('while PostgreSQL is away a turn is put off, and its end is sent again until it is answered or the pod gives up', async (t) => {
  const { ask, begin, claimTurn, database, rows } = await attemptsOn(t)
  await ask('a')
  const claim = await claimTurn()
  let isAway = true
  const lost = { type: 'not-committed', failure: 'lost', error: new Error('away') } as const
  const shaky: Pick<Database, 'transaction'> = {
    transaction: async (work, options) => (isAway ? lost : database.transaction(work, options)),
  }
  const unread = await begin(claim, () => assert.fail('the agent was called'), { database: shaky }).ended
  const delayMs = 'delayMs' in unread && unread.delayMs
  assert.deepEqual({ type: unread.type, delayMs }, { type: 'later', delayMs: 1_000 })

  isAway = false
  const leaving = begin(claim, () => ((isAway = true), saying('hello')), { database: shaky })
  leaving.gaveUp.abort(new Error('the pod stops'))
  assert.deepEqual(await leaving.ended, { type: 'done', answer: 'unanswered' })
  assert.equal((await rows()).messages.length, 1)

  isAway = false
  const gone = Promise.withResolvers<void>()
  const patient = begin(claim, () => ((isAway = true), gone.resolve(), saying('hello')), { database: shaky })
  await gone.promise
  await systemClock().sleep(100)
  isAway = false
  assert.deepEqual(await patient.ended, { type: 'done', answer: 'settled' })
  assert.equal((await rows()).messages.length, 2)
})

test('the check fails a turn that is too old, and its agent is not called', async (t) => {
  const { ask, begin, claimTurn, rows, run } = await attemptsOn(t)
  await ask('a')
  const claim = await claimTurn()
  await run((query) => query(`update fleetline.turns set started_at = now() - interval '1 hour'`))
  const old = await begin(claim, () => assert.fail('the agent was called')).ended
  assert.deepEqual(old, { type: 'failed', answer: 'settled' })
  const { session, turns } = await rows()
  assert.equal(session.turn, null)
  assert.equal(turns[0]!.outcome, 'failed')
})
