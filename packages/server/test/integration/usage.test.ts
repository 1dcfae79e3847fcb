// What attempts have used: reported, cut off, tried again; summed by day, agent, model and session.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { AttemptTokens, Turn } from '@fleetline/protocol'
import { agent, type AgentAnswer } from '../../src/agent/agent.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { USAGE } from '../../src/cli/usage.ts'
import type { UsageResult } from '../../src/gateway/usage-routes.ts'
import { createUsageList, usageStatement, USAGE_KEYS } from '../../src/usage/list.ts'
import { createUsageRecorder, recordUsage, type UsedAttempt } from '../../src/usage/record.ts'
import { sumAgainFrom, sumNextTenants } from '../../src/usage/sums.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { explaining } from '../support/plan.ts'
import { podOn } from '../support/pod.ts'
import { typing } from '../support/terminal.ts'
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
    (await call('GET', `${gateway}/v1/usage?by=${by}`)).body as unknown as UsageResult
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
  const typed = await typing([USAGE], 'usage')({ url: gateway }, '', [], { by: 'model' })
  assert.match(typed.out, /^large\t[^]*\n\(unnamed\)\t0\t1\t1\t/)
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
  const once = [{ attempt: 1, outcome: 'fenced', ...small(30) }]
  assert.deepEqual(await recordTwice(store, store.database), once)
  const [late] = await store.run((query) => turnsOn(query, [0], '01980000-0000-7000-8000-00000000000b'))
  await store.record({ ...ROW, turn: late!, outcome: 'stopped', models: [] })
  await store.record({ ...ROW, turn: late!, outcome: 'fenced', models: [small(5)] })
  assert.deepEqual(await store.ofTurn(1, late!), [{ attempt: 1, outcome: 'stopped', ...small(5) }])
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

const tokens = (model: string, inputTokens: number) => ({ ...small(inputTokens), model })
const SHORT = ({ outcome, model, inputTokens }: AttemptTokens) => [outcome, model, inputTokens]
/** What an attempt has said in the table: two steps. */
const STEPS = [tokens('a', 100), tokens('b', 50)]
/** What its own pod knows: the total, from the metadata of its message. */
const TOTAL = [tokens('a', 150)]

test('E9: what the pod of an attempt has counted itself takes the place of what others read from its chunks', async (t) => {
  const { run, record, ofTurn } = await storeOn(t)
  for (const [writes, left] of [
    [['lost', 'fenced'], 'fenced'],
    [['lost', 'fenced', 'lost'], 'fenced'],
    [['stopped', 'fenced'], 'stopped'],
    [['failed', 'stopped'], 'failed'],
    [['returned', 'lost'], 'returned'],
  ] as const) {
    const [turn] = await run((query) => turnsOn(query, [0], SESSION))
    for (const outcome of writes) {
      const models = outcome === 'lost' || outcome === 'stopped' ? STEPS : TOTAL
      await record({ ...ROW, turn: turn!, outcome, models })
      await record({ ...ROW, turn: turn!, attempt: 2, outcome: 'lost', models: [small(7)] })
    }
    assert.deepEqual(
      (await ofTurn(1, turn!)).map(SHORT),
      [
        [left, 'a', 150],
        ['lost', 'small', 7],
      ],
      String(writes),
    )
  }
})

test('E9: the pod of an attempt waits for the stop that writes the same attempt, and takes the place of its rows', async (t) => {
  const { run, record, ofTurn } = await storeOn(t)
  const [turn] = (await run((query) => turnsOn(query, [0], SESSION))) as [string]
  const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  const recorded = await run(async (query) => {
    await query('update fleetline.turns set halting = 1 where id = $1', [turn])
    await recordUsage(query, [{ ...ROW, turn, outcome: 'stopped', models: STEPS }])
    const own = record({ ...ROW, turn, outcome: 'failed', models: TOTAL })
    await eventually(
      async () => assert.equal((await run((other) => other(waits))).length, 1, 'it waits for the lock'),
      { what: 'the pod to wait' },
    )
    return { own }
  })
  await recorded.own
  assert.deepEqual((await ofTurn(1, turn)).map(SHORT), [['stopped', 'a', 150]])
})

test('L11: an attempt that a batch names twice is written once, with the highest numbers', async (t) => {
  const { run, ofTurn } = await storeOn(t)
  const [turn] = (await run((query) => turnsOn(query, [0], SESSION))) as [string]
  const lost = (models: UsedAttempt['models']): UsedAttempt => ({ ...ROW, turn, outcome: 'lost', models })
  const more = { ...small(10), outputTokens: null, reasoningTokens: 3 }
  await run((query) => recordUsage(query, [lost([small(30)]), lost([more]), lost([]), lost([])]))
  const [first, ...others] = await ofTurn(1, turn)
  assert.deepEqual(first, { attempt: 1, outcome: 'lost', ...small(30), reasoningTokens: 3 })
  assert.deepEqual(others, [])
})

test('a month that is over and has no partition costs its rows; a missing partition of this month is made', async (t) => {
  const { run, record, ofTurn } = await storeOn(t)
  const [old, current] = (await run((query) => turnsOn(query, [200, 0], SESSION))) as [string, string]
  await record({ ...ROW, turn: old, models: [small(1)] })
  assert.deepEqual(await ofTurn(1, old), [])
  await run((query) =>
    query(
      `do $$ begin execute 'drop table fleetline.usage_' || to_char(now() at time zone 'UTC', 'YYYYMM'); end $$`,
    ),
  )
  await record({ ...ROW, turn: current, models: [small(1)] })
  assert.deepEqual((await ofTurn(1, current)).map(SHORT), [['done', 'small', 1]])
})

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

/** Sums all that is left to sum. */
async function sumAll({ run, database }: Awaited<ReturnType<typeof storeOn>>): Promise<void> {
  await run((query) => query('update fleetline.leader set term = 1, pod = 1'))
  while (await sumNextTenants(database, { term: 1, pod: 1 }));
}
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10)

test('sums of the largest numbers do not overflow', async (t) => {
  const store = await storeOn(t)
  const turns = await store.run((query) => turnsOn(query, [5, 5], SESSION))
  for (const turn of turns)
    await store.record({ ...ROW, turn, models: [{ ...small(2_147_483_647), outputTokens: 2_147_483_647 }] })
  const total = async () =>
    (await store.list(1, WHOLE)).map(({ inputTokens, outputTokens }) => [inputTokens, outputTokens])
  const expected = [[4_294_967_294, 4_294_967_294]]
  assert.deepEqual(await total(), expected)
  await sumAll(store)
  assert.deepEqual(await total(), expected)
})

test('rows that come late are summed, too; a day whose rows were dropped keeps its sums', async (t) => {
  const store = await storeOn(t)
  const { run, record, list } = store
  const [first, late] = (await run((query) => turnsOn(query, [5, 5], SESSION))) as [string, string]
  const sums = async () =>
    (await list(1, { ...WHOLE, by: 'model' })).map(({ key, attempts, inputTokens }) => [
      key,
      attempts,
      inputTokens,
    ])
  const summed = `select model, input_tokens::int as tokens from fleetline.usage_days order by model`
  const stored = () => run((query) => query(summed))
  await record({ ...ROW, turn: first, outcome: 'lost', models: STEPS })
  await sumAll(store)
  assert.deepEqual(await stored(), [
    { model: 'a', tokens: 100 },
    { model: 'b', tokens: 50 },
  ])
  await record({ ...ROW, turn: late, outcome: 'lost', models: [] })
  await record({ ...ROW, turn: first, outcome: 'fenced', models: TOTAL })
  const expected = [
    ['a', 1, 150],
    ['', 1, 0],
  ]
  assert.deepEqual(await sums(), expected)
  await sumAll(store)
  assert.deepEqual(await sums(), expected)
  const after = [
    { model: '', tokens: 0 },
    { model: 'a', tokens: 150 },
  ]
  assert.deepEqual(await stored(), after, 'the replaced model has no sum any more')

  await run((query) => query('truncate fleetline.usage'))
  await run((query) => sumAgainFrom(query, daysAgo(6)))
  await sumAll(store)
  assert.deepEqual(await stored(), after)
})

test('a row of today does not wait for the leader, which sums; a row that comes late does, and its day is summed once more', async (t) => {
  const store = await storeOn(t)
  const { run, record } = store
  const [now, late] = (await run((query) => turnsOn(query, [0, 5], SESSION))) as [string, string]
  await run((query) => query('update fleetline.usage_progress set day = $1, last_tenant = 7', [daysAgo(5)]))
  const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  const { written } = await run(async (query) => {
    await query('select from fleetline.usage_progress for update')
    await record({ ...ROW, turn: now, models: [small(1)] })
    const waiting = record({ ...ROW, turn: late, models: [small(1)] })
    await eventually(async () => assert.equal((await run((other) => other(waits))).length, 1), {
      what: 'the late row to wait',
    })
    await query('update fleetline.usage_progress set day = day + 1, last_tenant = 0')
    return { written: waiting }
  })
  await written
  const progress = () =>
    run((query) => query('select day::text, last_tenant as tenant from fleetline.usage_progress'))
  assert.deepEqual(await progress(), [{ day: daysAgo(5), tenant: 0 }])
  await run((query) => query('update fleetline.usage_progress set day = $1, last_tenant = 7', [daysAgo(6)]))
  await record({ ...ROW, turn: late, models: [small(2)] })
  assert.deepEqual(await progress(), [{ day: daysAgo(6), tenant: 7 }], 'it comes to that day by itself')
})

test('a row that another of its attempt has superseded makes no group', async (t) => {
  const { run, record, list } = await storeOn(t)
  const [turn] = (await run((query) => turnsOn(query, [0], SESSION))) as [string]
  await record({ ...ROW, turn, outcome: 'lost', models: [] })
  await record({ ...ROW, turn, outcome: 'lost', models: [small(5)] })
  const rows = await list(1, { ...WHOLE, by: 'model' })
  assert.deepEqual(
    rows.map(({ key, attempts }) => [key, attempts]),
    [['small', 1]],
  )
})

test('a question about usage reads the rows of its tenant and days, and an attempt is written without reading others', async (t) => {
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
  const [turn] = (await run((query) => turnsOn(query, [0], SESSION))) as [string]
  const { plans } = await run(async (plain) => {
    const explained = explaining(plain)
    await recordUsage(explained.query, [{ ...ROW, turn, outcome: 'failed', models: STEPS }])
    return explained
  })
  assert.ok(plans[0]!.buffers < 100, `a write: ${plans[0]!.buffers} buffers`)
})
