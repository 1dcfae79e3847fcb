// How long sessions are kept: which ones are erased, in steps, at a time that the test chooses.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { uuidV7 } from '@fleetline/protocol'
import { agent } from '../../src/agent/agent.ts'
import { ERASURES } from '../../src/cli/erasures.ts'
import { erasureDuties } from '../../src/erasure/duties.ts'
import {
  claimTenant,
  CANDIDATES,
  expireNext,
  PAGE,
  type RetentionRules,
} from '../../src/erasure/retention.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { READ } from '../../src/erasure/user.ts'
import { eraseMessages, FORGET_ERRORS } from '../../src/session/erase.ts'
import { ERASED_SEQS } from '../../src/session/replay.ts'
import { valueOf, type Query } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { databaseFor } from '../support/database.ts'
import { call } from '../support/http.ts'
import { explaining } from '../support/plan.ts'
import { podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'
import { typing } from '../support/terminal.ts'

const NOW = Date.now()
const DAY_MS = 86_400_000
const TERM = { term: 1, pod: 1 }

type Made = {
  readonly age: number
  readonly idle?: number
  readonly agent?: string | null
  readonly tenant?: number
}

async function setUp(t: TestContext) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const rows = <Row extends object>(text: string, values: unknown[] = []) =>
    run((query) => query<Row>(text, values))
  await rows(`insert into fleetline.leader (term, pod) values (1, 1) on conflict do nothing`)
  await rows('update fleetline.leader set term = 1, pod = 1')
  /** Sessions that began `age` days ago and had their last message `idle` days ago. */
  const make = (sessions: readonly Made[]) =>
    rows(
      `insert into fleetline.sessions (tenant, id, agent, head, created_at, updated_at)
       select tenant, id, agent, 1, at, at from unnest($1::int[], $2::uuid[], $3::text[], $4::timestamptz[]) s(tenant, id, agent, at)`,
      [
        sessions.map(({ tenant = 1 }) => tenant),
        sessions.map(({ age }) => uuidV7(NOW - age * DAY_MS, randomBytes(10))),
        sessions.map(({ agent = null }) => agent),
        sessions.map(({ age, idle = age }) => new Date(NOW - idle * DAY_MS)),
      ],
    )
  const erased = async (inDays = 0) => {
    const found = await rows<{ days: number; agent: string | null; tenant: number }>(
      `select round(extract(epoch from $1::timestamptz - updated_at) / 86400)::int as days, agent, tenant
         from fleetline.sessions where erased_at is not null order by updated_at, agent`,
      [new Date(NOW + inDays * DAY_MS)],
    )
    return found.map(({ days, agent, tenant }) => [days, agent, tenant])
  }
  const claim = async (inDays = 0, term = TERM) => {
    const now = new Date(NOW + inDays * DAY_MS)
    const claimed = await run((query) => claimTenant(query, term, now))
    return claimed && { ...claimed, now }
  }
  const step = async (inDays = 0, term = TERM) => {
    const claimed = await claim(inDays, term)
    return claimed && run((query) => expireNext(query, term, claimed))
  }
  const rule = (keepDays: number, agent = '', tenant = 1) =>
    rows(
      `with p as (insert into fleetline.retention_progress (tenant) values ($1) on conflict do nothing)
       insert into fleetline.retention (tenant, agent, keep_days) values ($1, $2, $3)`,
      [tenant, agent, keepDays],
    )
  return { url, database, run, rows, make, erased, claim, step, rule }
}

test('S35: a session is erased when its rule says, and none that is younger, has a message since, or has no rule', async (t) => {
  const { make, erased, step, rule, rows } = await setUp(t)
  await rows(`insert into fleetline.tenants (name) values ('other')`)
  await make([
    { age: 29 },
    { age: 31 },
    { age: 400, idle: 29 },
    { age: 31, agent: 'clerk' },
    { age: 91, agent: 'clerk' },
    { age: 8, agent: 'hasty' },
    { age: 31, agent: 'other' },
    { age: 1_000, tenant: 2 },
  ])
  assert.equal(await step(), undefined, 'no rule')
  await rule(30)
  await rule(90, 'clerk')
  await rule(7, 'hasty')
  assert.equal(await step(0, { term: 0, pod: 1 }), undefined, 'a leader that was replaced')
  await step()
  assert.deepEqual(await erased(), [
    [91, 'clerk', 1],
    [31, 'other', 1],
    [31, null, 1],
    [8, 'hasty', 1],
  ])
  assert.equal(await step(), undefined, 'the round is over')
  await rows(
    `update fleetline.sessions set turn = gen_random_uuid()
      where id = (select id from fleetline.sessions where erased_at is null and tenant = 1 order by id limit 1)`,
  )
  await step(2)
  const [, , , , ...later] = await erased(2)
  assert.equal(later.length, 1, 'the one with a live turn stays')
})

test('S35: a round looks at 1,000 sessions a step, goes on where it was interrupted, and reads by the key', async (t) => {
  const { make, erased, claim, step, rule, run, rows } = await setUp(t)
  await make(Array.from({ length: 2_500 }, (_, n) => ({ age: 40 + n / 100, idle: n % 5 === 0 ? 10 : 40 })))
  // Before the first update: how long old versions of rows stay in the index depends on what else runs in the database.
  await rows('analyze fleetline.sessions')
  const { query, plans } = explaining((text, values) => run((ask) => ask(text, values)))
  const [{ id }] = (await rows<{ id: string }>(
    'select id from fleetline.sessions order by id offset 700 limit 1',
  )) as [{ id: string }]
  await query(CANDIDATES, [1, id, 'ffffffff-ffff-ffff-ffff-ffffffffffff', PAGE])
  assert.match(plans[0]!.text, /sessions_pkey/)
  assert.ok(plans[0]!.buffers < 1_100, `${plans[0]!.buffers} buffers`)

  await rule(30)
  assert.equal((await step())!.sessions.length, 800)
  const claimed = await claim()
  const cut = run(async (query) => {
    await expireNext(query, TERM, claimed!)
    throw new Error('the pod dies')
  })
  await assert.rejects(cut, /the pod dies/)
  assert.equal((await erased()).length, 800)
  assert.equal(await step(), undefined, 'the tenant rests for a minute, so that it holds up no other')
  await rows(`update fleetline.retention_progress set next_at = '-infinity'`)
  assert.equal((await step())!.sessions.length, 800)
  assert.equal((await step())!.sessions.length, 400)
  assert.equal(await step(), undefined)
  assert.equal((await rows('select from fleetline.erased_sessions where erasure is null')).length, 2_000)
  assert.deepEqual([...new Set((await erased()).map(([days]) => days))], [40])
})

test('I3: members of a session that a rule has erased are told', async (t) => {
  const { database, make, rows, rule } = await setUp(t)
  await make([{ age: 31 }, { age: 29 }])
  await rows(
    `insert into fleetline.members (tenant, session, user_id) select tenant, id, 'ada' from fleetline.sessions`,
  )
  await rule(30)
  const told: string[] = []
  const duties = erasureDuties({
    database,
    clock: systemClock(),
    metrics: createMetrics(),
    sessions: {
      stopTurn: () => Promise.reject(new Error('no turn')),
      notifyChanged: ({ session }) => void told.push(session),
    },
    onMembershipChanged: (tenant, user, session) => void told.push(`${tenant} ${user} ${session}`),
  })
  await duties.find(({ name }) => name === 'expire sessions')!.run(TERM, () => true)
  const [old] = await rows<{ id: string }>('select id from fleetline.sessions where erased_at is not null')
  assert.deepEqual(told, [`1 ada ${old!.id}`, old!.id])
})

test('a session that cannot be erased holds up no other session of its tenant, while other tenants have rounds', async (t) => {
  const { database, make, rows, rule } = await setUp(t)
  const others = Array.from({ length: 10 }, (_, n) => n + 2) // so many steps that succeed make a small step as large as before
  await rows(`insert into fleetline.tenants (name) select 'other-' || n from unnest($1::int[]) n`, [others])
  await make(Array.from({ length: 9 }, (_, n) => ({ age: 40 + n })))
  for (const tenant of [1, ...others]) await rule(30, '', tenant)
  const [bad] = await rows<{ id: string }>(
    'select id from fleetline.sessions where tenant = 1 order by id offset 4 limit 1',
  )
  await rows(`alter table fleetline.erased_sessions add constraint bad check (session <> '${bad!.id}')`)
  const duties = erasureDuties({
    database,
    clock: systemClock(),
    metrics: createMetrics(),
    sessions: { stopTurn: () => Promise.reject(new Error('no turn')), notifyChanged: () => undefined },
    onMembershipChanged: () => undefined,
  })
  const expire = duties.find(({ name }) => name === 'expire sessions')!
  const outcomes: string[] = []
  const run = () =>
    expire
      .run(TERM, () => true)
      .then(
        () => outcomes.push('done'),
        () => outcomes.push('failed'),
      )
  for (let tries = 0; tries < 5; tries += 1) {
    await run()
    await run() // the tenant waits, the others do not
    await rows(`update fleetline.retention_progress set next_at = '-infinity'`)
  }
  assert.deepEqual(
    await rows('select id from fleetline.sessions where tenant = 1 and erased_at is null'),
    [bad],
    outcomes.join(),
  )
})

test('a session that gets a message between the look and the lock stays', async (t) => {
  const { make, erased, claim, rule, run } = await setUp(t)
  await make([{ age: 40 }, { age: 40 }])
  await rule(30)
  const claimed = await claim()
  await run((query) =>
    expireNext(
      async (text, values) => {
        const found = await query(text, values)
        if (text === CANDIDATES)
          await query(
            `update fleetline.sessions set updated_at = now() where id = (select min(id::text)::uuid from fleetline.sessions)`,
          )
        return found as never
      },
      TERM,
      claimed!,
    ),
  )
  assert.equal((await erased()).length, 1)
})

test('rules are set, counted and removed over HTTP and by commands', async (t) => {
  const { url, make, rows } = await setUp(t)
  const desk = agent('desk', async function* () {
    yield { type: 'finish' }
  })
  const { gateway, pod } = await podOn(t, url, {}, { agents: [desk] })
  await make([{ age: 40 }, { age: 100 }, { age: 100, agent: 'clerk' }, { age: 5 }])
  const terminal = { url: gateway }
  const type = typing(ERASURES, 'retention')
  const dry = await type(terminal, 'set', ['30'], { dryRun: true })
  assert.match(dry.out, /^sessions\t3\nmessages\t3\nfrom\t20\S+\nto\t20\S+\nisComplete\ttrue\n$/)
  assert.deepEqual(await pod.retention.preview({ agent: 'clerk', keepDays: 30 }), {
    ...(await pod.retention.preview({ agent: 'clerk', keepDays: 30 })),
    sessions: 1,
  })
  assert.equal((await pod.retention.preview()).sessions, 0)
  assert.deepEqual(await rows('select from fleetline.erased_sessions'), [])
  const unknown = await type(terminal, 'set', ['365'], { dryRun: true, agent: 'clerk' })
  assert.equal(unknown.out, 'sessions\t0\nmessages\t0\nisComplete\ttrue\n')
  assert.match(unknown.err, /^No agent has the name clerk now/)
  assert.equal((await type(terminal, 'set', ['365'], { dryRun: true, agent: 'desk' })).err, '')
  const unsure = await type(terminal, 'set', ['3650'])
  assert.equal(unsure.code, 2)
  assert.match(
    unsure.err,
    /erases sessions without another rule 3650 days after their last message or failed reply. Erasing cannot be undone. To count them first, add --dry-run. To set the rule, add --yes/,
  )
  assert.equal((await type(terminal, 'set', ['3650'], { yes: true })).out, 'all other sessions\t3650\n')
  assert.match(
    (await type(terminal, 'set', ['90'], { agent: 'clerk', yes: true })).err,
    /^No agent has the name/,
  )
  assert.deepEqual((await call('GET', `${gateway}/v1/retention`)).body, {
    keepDays: 3_650,
    agents: [{ agent: 'clerk', keepDays: 90 }],
  } satisfies RetentionRules)
  assert.equal((await type(terminal, 'set', ['off'])).out, 'clerk\t90\nall other sessions\toff\n')
  assert.equal((await type(terminal, 'set', ['off'])).err, 'There was no rule for all other sessions.\n')
  assert.equal((await type(terminal, 'get')).out, 'clerk\t90\nall other sessions\toff\n')
  const asJson = await type({ ...terminal, json: true }, 'get')
  assert.deepEqual(JSON.parse(asJson.out), { keepDays: null, agents: [{ agent: 'clerk', keepDays: 90 }] })
  const unset = await type(terminal, 'set', ['off'], { agent: 'clerk' })
  assert.equal(unset.code, 2)
  assert.match(
    unset.err,
    /clerk then follow the rule for all other sessions, .* To remove the rule, add --yes/,
  )
  assert.match(
    (await type(terminal, 'set', ['0'], { yes: true })).err,
    /must be a whole number from 1 to 36500, or "off"/,
  )
  const audited = await rows<{ target: string }>(
    `select target from fleetline.audit where action = 'retention.set' order by id`,
  )
  assert.deepEqual(
    audited.map(({ target }) => target),
    ['all other sessions: none → 3650', 'clerk: none → 90', 'all other sessions: 3650 → none'],
  )
})

test('the messages of a user, and those that a follower has missed, are found by keys', async (t) => {
  const { make, run, rows } = await setUp(t)
  await make(Array.from({ length: 20 }, () => ({ age: 1 })))
  await rows(
    `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, author, body)
     select now(), 1, s.id, n, gen_random_uuid(), n, 0, 0, 'm' || n, 'ada', '{"parts":[]}' from fleetline.sessions s, generate_series(1, 1000) n`,
  )
  const [{ id }] = (await rows<{ id: string }>(
    'select id from fleetline.sessions order by id offset 10 limit 1',
  )) as [{ id: string }]
  await rows(
    `insert into fleetline.turns (started_at, ended_at, id, session, tenant, epoch, read_from, agent, outcome)
     select now(), now(), gen_random_uuid(), $1, 1, n, 0, 'clerk', 'done' from generate_series(1, 20000) n`,
    [id],
  )
  await rows('analyze fleetline.messages, fleetline.turns')
  const { query, plans } = explaining((text, values) => run((ask) => ask(text, values)))
  await query(READ, [1, id, 500, 'ada']) // before the first update, as above
  const all = Array.from({ length: 1_000 }, (_, n) => n + 1)
  await run((ask) => eraseMessages(ask, { tenant: 1, session: id }, all))
  await rows('analyze fleetline.erased_messages')
  await query(ERASED_SEQS, [1, id, 1, 2])
  await query(FORGET_ERRORS, [1, id, 19_990])
  assert.match(plans[0]!.text, /messages_pkey/)
  assert.match(plans[1]!.text, /erased_messages_pkey/)
  assert.match(plans[2]!.text, /turns_epoch/)
  const isCheap = plans[0]!.buffers < 2_500 && plans[1]!.buffers < 20 && plans[2]!.buffers < 20
  assert.ok(isCheap, plans.map(({ buffers }) => buffers).join())
})

test('the errors of turns are erased once; that of a turn that was live then, by the next erasure', async (t) => {
  const { make, run, rows } = await setUp(t)
  await make([{ age: 1 }])
  const [{ id }] = (await rows<{ id: string }>('select id from fleetline.sessions')) as [{ id: string }]
  await rows(
    `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
     select now(), 1, $1, n, gen_random_uuid(), n, 0, 0, 'm' || n, '{"parts":[]}' from generate_series(1, 2) n`,
    [id],
  )
  await rows(
    `insert into fleetline.turns (started_at, id, session, tenant, epoch, read_from, agent)
     select now(), gen_random_uuid(), $1, 1, n, 0, 'clerk' from generate_series(2, 2) n`,
    [id],
  )
  const fail = (epoch: number) =>
    rows(
      `insert into fleetline.turns (started_at, ended_at, id, session, tenant, epoch, read_from, agent, outcome, error)
       values (now(), now(), gen_random_uuid(), $1, 1, $2, 0, 'clerk', 'failed', '{"code":"internal","message":"secret"}')
       on conflict (tenant, session, epoch) do update set ended_at = now(), outcome = 'failed', error = excluded.error`,
      [id, epoch],
    )
  await fail(1)
  await rows(
    'update fleetline.sessions set epoch = 2, turn = (select id from fleetline.turns where epoch = 2)',
  )
  const eraseOne = async (seq: number) => {
    await run((query) => eraseMessages(query, { tenant: 1, session: id }, [seq]))
    const found = await rows<{ said: string }>(
      `select error ->> 'message' as said from fleetline.turns where error is not null order by epoch`,
    )
    return found.map(({ said }) => said)
  }
  assert.deepEqual(await eraseOne(1), ['Erased'])
  await fail(2)
  await rows('update fleetline.sessions set turn = null')
  assert.deepEqual(await eraseOne(2), ['Erased', 'Erased'])
})
