// What attempts have used: reported, cut off, tried again; summed by day, agent, model and session.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Turn } from '@fleetline/protocol'
import { agent, type AgentAnswer } from '../../src/agent/agent.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import type { UsageAnswer } from '../../src/gateway/usage-routes.ts'
import { createUsageList, usageStatement, USAGE_KEYS } from '../../src/usage/list.ts'
import { createUsageRecorder } from '../../src/usage/record.ts'
import { sumNextTenants } from '../../src/usage/sums.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { explaining } from '../support/plan.ts'
import { podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'
import { talkOn } from '../support/talk.ts'

const NONE = { cacheReadTokens: null, cacheWriteTokens: null, reasoningTokens: null }
const step = (id: string, model: string, inputTokens: number, outputTokens: number) => ({
  type: 'data-usage',
  id,
  data: { model, usage: { inputTokens, outputTokens } },
})

/** An agent that does with each attempt what the test says. */
async function spenderOn(t: TestContext, attempts: (() => AgentAnswer)[]) {
  const url = await databaseFor(t)
  const spender = agent('spender', () => attempts.shift()!())
  const { gateway, pod, admin } = await podOn(t, url, {}, { agents: [spender] })
  const talk = await talkOn(t, { url, gateway, agent: 'spender' })
  const shortOf = ({ usage = [] }: Turn) =>
    usage.map(({ attempt, model, outcome, inputTokens, outputTokens }) => [
      attempt,
      outcome,
      model,
      inputTokens,
      outputTokens,
    ])
  return { ...talk, url, pod, admin, shortOf }
}

test('E9: tokens are counted per attempt and model, also of an attempt that failed and of one that reported nothing', async (t) => {
  const fails = async function* () {
    yield { type: 'start' }
    yield step('1', 'small', 10, 1)
    throw new Error('broken')
  }
  const silent = async function* () {
    yield { type: 'start' }
    throw new Error('broken again')
  }
  const replies = async function* () {
    yield* [{ type: 'start' }, { type: 'start-step' }, step('1', 'small', 20, 2)]
    yield* [{ type: 'start-step' }, step('2', 'large', 30, 3), step('2', 'large', 40, 4)]
    yield* [
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'done' },
      { type: 'finish' },
    ]
  }
  const { send, ended, shortOf, pod, admin, session, gateway } = await spenderOn(t, [fails, silent, replies])
  const turn = await ended((await send('go')).turn!)
  assert.deepEqual(shortOf(turn), [
    [1, 'failed', 'small', 10, 1],
    [2, 'failed', '', null, null],
    [3, 'done', 'large', 40, 4],
    [3, 'done', 'small', 20, 2],
  ])
  const total = { turns: 1, attempts: 3, unreported: 1, inputTokens: 70, outputTokens: 7 }
  const none = { cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
  const day = turn.startedAt.slice(0, 10)
  const asked = async (by: string) =>
    (await call('GET', `${gateway}/v1/usage?by=${by}`)).body as unknown as UsageAnswer
  assert.deepEqual((await asked('day')).rows, [{ key: day, ...total, ...none }])
  assert.deepEqual((await asked('agent')).rows, [{ key: 'spender', ...total, ...none }])
  assert.deepEqual((await asked('session')).rows, [{ key: session, ...total, ...none }])
  assert.deepEqual(
    (await asked('model')).rows.map(({ key, turns, attempts, unreported, inputTokens }) => [
      key,
      turns,
      attempts,
      unreported,
      inputTokens,
    ]),
    [
      ['large', 0, 1, 0, 40],
      ['small', 1, 1, 0, 30],
      ['', 0, 1, 1, 0],
    ],
  )
  assert.deepEqual((await pod.usage({ by: 'model', agent: 'nobody' })).rows, [])
  assert.match(await (await fetch(`${admin}/metrics`)).text(), /fleetline_tokens_total\{kind="input"\} 70/)
})

test('E9: a reply that is stopped has used what its agent had reported until then', async (t) => {
  const { promise: free, resolve } = Promise.withResolvers<void>()
  const talks = async function* () {
    yield* [
      { type: 'start' },
      step('1', 'small', 10, 1),
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'half' },
    ]
    await free
  }
  const { send, turn, ended, shortOf, pod, session, run } = await spenderOn(t, [talks])
  const { turn: id, epoch } = await send('go')
  await eventually(async () => assert.equal((await run('select 1 from fleetline.chunks')).length > 0, true), {
    what: 'its words',
  })
  await pod.sessions.stop(session, { turn: id!, epoch: epoch! })
  assert.deepEqual(shortOf(await ended(id!)), [[1, 'stopped', 'small', 10, 1]])
  resolve()
  await eventually(async () => assert.equal((await turn(id!)).halted, true), { what: 'the end of the call' })
  assert.deepEqual(shortOf(await turn(id!)), [[1, 'stopped', 'small', 10, 1]])
})

const ROW = { tenant: 1, attempt: 1, outcome: 'done' } as const
const small = (inputTokens: number | null) => ({ model: 'small', inputTokens, outputTokens: 1, ...NONE })

/** Turns that started so many days ago. */
async function turnsOn(
  query: Query,
  ages: readonly number[],
  session: string,
  tenant = 1,
): Promise<string[]> {
  const rows = await query<{ id: string }>(
    `insert into fleetline.turns (started_at, id, session, tenant, epoch, read_from, agent, ended_at, outcome)
     select now() - age * interval '1 day', gen_random_uuid(), $2, $3, 1 + (random() * 1e9)::int, 1, case n % 2 when 0 then 'even' else 'odd' end, now(), 'done'
       from unnest($1::int[]) with ordinality a(age, n) returning id`,
    [ages, session, tenant],
  )
  return rows.map(({ id }) => id)
}

async function storeOn(t: TestContext) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  await run((query) =>
    query(`select fleetline.make_partition('usage', to_char(m, 'YYYYMM'), m::date, (m + interval '1 month')::date)
     from generate_series(date_trunc('month', now() - interval '3 months'), now(), interval '1 month') m`),
  )
  return { database, run, ...createUsageRecorder({ database }), ...createUsageList({ database }) }
}

const SESSION = '01980000-0000-7000-8000-00000000000a'

async function recordTwice(
  store: Awaited<ReturnType<typeof storeOn>>,
  database: Pick<Database, 'transaction'>,
) {
  const [turn] = await store.run((query) => turnsOn(query, [0], SESSION))
  const { record } = createUsageRecorder({ database })
  await record({ ...ROW, turn: turn!, outcome: 'lost', models: [small(10)] })
  await record({ ...ROW, turn: turn!, outcome: 'fenced', models: [small(30)] })
  await record({ ...ROW, turn: turn!, outcome: 'fenced', models: [small(20)] })
  await record({ ...ROW, turn: turn!, outcome: 'fenced', models: [] })
  return store.ofTurn(1, turn!)
}

test('E9: repeated writes count once, with the highest numbers; an attempt that reports late is not unreported', async (t) => {
  const store = await storeOn(t)
  const once = [{ attempt: 1, outcome: 'lost', ...small(30) }]
  assert.deepEqual(await recordTwice(store, store.database), once)
  const [late] = await store.run((query) => turnsOn(query, [0], '01980000-0000-7000-8000-00000000000b'))
  await store.record({ ...ROW, turn: late!, outcome: 'stopped', models: [] })
  await store.record({ ...ROW, turn: late!, outcome: 'fenced', models: [small(5)] })
  assert.deepEqual(await store.ofTurn(1, late!), [{ attempt: 1, outcome: 'fenced', ...small(5) }])
  const [{ unreported, attempts, inputTokens } = {}] = await store.list(1, { ...WHOLE, by: 'agent' })
  assert.deepEqual([unreported, attempts, inputTokens], [0, 2, 35])

  const added = 'usage.input_tokens + excluded.input_tokens'
  const mutant: Pick<Database, 'transaction'> = {
    transaction: (work, options) =>
      store.database.transaction(
        (query) => work((text, values) => query(text.replace(GREATEST, added), values)),
        options,
      ),
  }
  assert.notDeepEqual(
    await recordTwice({ ...store, run: (work) => store.run(work) }, mutant),
    once,
    'mutant: repeated writes add up',
  )
})
const GREATEST = 'greatest(usage.input_tokens, excluded.input_tokens)'

const today = new Date().toISOString().slice(0, 10)
const WHOLE = {
  by: 'day',
  from: new Date(Date.now() - 60 * 86_400_000).toISOString().slice(0, 10),
  to: today,
  agent: undefined,
  session: undefined,
  limit: 1_000,
} as const

test('days that are over are summed once, in steps; sums and rows give the same answers', async (t) => {
  const { run, record, list, database } = await storeOn(t)
  await run((query) =>
    query(`insert into fleetline.tenants (name) select 'tenant-' || n from generate_series(1, 120) n`),
  )
  const tenants = (
    await run((query) => query<{ id: number }>('select id from fleetline.tenants order by id'))
  ).map(({ id }) => id)
  for (const tenant of [tenants[0]!, tenants[60]!, tenants.at(-1)!]) {
    const turns = await run((query) => turnsOn(query, [0, 1, 2, 2, 3, 5], SESSION, tenant))
    for (const [n, turn] of turns.entries()) {
      await record({
        ...ROW,
        tenant,
        turn,
        attempt: 1,
        outcome: 'failed',
        models: n % 2 === 0 ? [] : [small(n)],
      })
      await record({
        ...ROW,
        tenant,
        turn,
        attempt: 2,
        models: [small(10 * n), { ...small(7), model: 'large' }],
      })
    }
  }
  const questions = USAGE_KEYS.filter((by) => by !== 'session').flatMap((by) => [
    { ...WHOLE, by },
    { ...WHOLE, by, agent: 'even' },
  ])
  const answers = async () => [
    ...(await Promise.all(questions.map((question) => list(tenants[60]!, question)))),
    ...(await Promise.all(questions.map((question) => list(tenants.at(-1)!, question)))),
  ]
  await run((query) =>
    query(`update fleetline.usage_progress set day = (now() at time zone 'UTC')::date - 6, last_tenant = 0`),
  )
  const before = await answers()
  const term = { term: 1, pod: 1 }
  await run((query) => query('update fleetline.leader set term = 1, pod = 1'))
  assert.equal(await sumNextTenants(database, { term: 2, pod: 1 }), false, 'only the leader sums')
  let steps = 0
  while (await sumNextTenants(database, term)) {
    steps += 1
    if (steps % 2 === 0) assert.deepEqual(await answers(), before, `after ${steps} steps`)
    if (steps === 3) await run((query) => query('update fleetline.usage_progress set last_tenant = 0')) // a step that is repeated
  }
  assert.deepEqual(await answers(), before)
  const [{ days } = { days: 0 }] = await run((query) =>
    query<{ days: number }>('select count(distinct day)::int as days from fleetline.usage_days'),
  )
  assert.equal(days, 3, 'today and yesterday are not summed yet')
})

test('a question about usage reads the rows of its tenant and days', async (t) => {
  const { run } = await storeOn(t)
  await run((query) =>
    query(`insert into fleetline.usage (turn, session, day, tenant, attempt, input_tokens, outcome, agent, model)
           select gen_random_uuid(), gen_random_uuid(), (now() at time zone 'UTC')::date - n % 20, 1 + n % 50, 1, n, 'done', 'bot', 'm'
             from generate_series(1, 50000) n`),
  )
  await run((query) => query('analyze fleetline.usage'))
  for (const by of USAGE_KEYS) {
    const { plans } = await run(async (plain) => {
      const explained = explaining(plain)
      await explained.query(usageStatement(by), [7, today, today, null, null, 10])
      return explained
    })
    assert.ok(plans[0]!.buffers < 100, `${by}: ${plans[0]!.buffers} buffers`)
  }
})
