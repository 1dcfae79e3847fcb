// Erasing messages, sessions and users over HTTP: what is left, who is told, and what goes on meanwhile.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import {
  formatId,
  parseId,
  uuidV7,
  type Ack,
  type Erasure,
  type Item,
  type Page,
  type Session,
  type Turn,
} from '@fleetline/protocol'
import { agent, type AgentCall } from '../../src/agent/agent.ts'
import { erasureDuties } from '../../src/erasure/duties.ts'
import { Abort } from '../../src/errors.ts'
import { ERASURES } from '../../src/cli/erasures.ts'
import { SESSIONS } from '../../src/cli/sessions.ts'
import { createErasures } from '../../src/erasure/erasures.ts'
import { eraseNextOfUser } from '../../src/erasure/user.ts'
import { deleteNext, wipeNext } from '../../src/erasure/wipe.ts'
import { COMMAND } from '../../src/identity/actor.ts'
import { createAudit } from '../../src/identity/audit.ts'
import { createCuts } from '../../src/identity/cuts.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { createDirectory } from '../../src/session/directory.ts'
import { eraseMessages, ERASURE_MESSAGES, markErased } from '../../src/session/erase.ts'
import { createReplay } from '../../src/session/replay.ts'
import { valueOf, type Query, type Transactions } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { readInbox } from '../support/inbox.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { readEvents, untilSeq, type Reader } from '../support/reader.ts'
import { dumpOf, filesWith } from '../support/search.ts'
import { appenderOn, sessionFor } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { saying } from '../support/talk.ts'
import { typing } from '../support/terminal.ts'
import { conversationOn, doneBy } from '../support/turns.ts'

const SCOPES = ['sessions:read', 'sessions:write', 'sessions:erase', 'tokens:mint', 'usage:read'] as const

async function setUp(t: TestContext) {
  const [url, calls] = [await databaseFor(t), [] as AgentCall[]]
  let hold = Promise.withResolvers<void>()
  const mirror = agent(
    'mirror',
    async function* (asked) {
      calls.push(asked)
      const text = JSON.stringify(asked.messages.at(-1)?.parts)
      if (text.includes('hold')) {
        yield* [
          { type: 'start' },
          { type: 'text-start', id: '1' },
          { type: 'text-delta', id: '1', delta: text },
        ]
        await hold.promise
        if (text.includes('fail')) throw new Abort('invalid', `cannot: ${text}`)
        yield* [{ type: 'text-end', id: '1' }, { type: 'finish' }]
      } else if (text.includes('fail')) throw new Error(`cannot: ${text}`)
      else yield* saying('Noted.')
    },
    {
      compaction: { tokenBudget: 1_000 },
      compact: async ({ messages }) => `short: ${JSON.stringify(messages)}`.slice(0, 100),
    },
  )
  const { pod, gateway } = await podOn(t, url, { ...CLOSED, drainMs: '0' }, { agents: [mirror] })
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend', scopes: SCOPES })
  const ask = (method: string, path: string, body?: unknown, token: string = key) =>
    call(method, `${gateway}/v1${path}`, body, token)
  const api = async <Body>(method: string, path: string, body?: unknown, token?: string) => {
    const answer = await ask(method, path, body, token)
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer)}`)
    return answer.body as Body
  }
  const database = await openDatabase(t, url)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const rows = <Row extends object>(text: string, values: unknown[] = []) =>
    run((query) => query<Row>(text, values))
  return {
    url,
    gateway,
    key,
    pod,
    calls,
    ask,
    api,
    run,
    rows,
    database,
    free: () => {
      hold.resolve()
      hold = Promise.withResolvers()
    },
    make: (alias: string, members: readonly string[] = [], more: object = {}) =>
      api<Session>('POST', '/sessions', { alias, members, ...more }),
    say: (session: string, text: string, more: object = {}) =>
      api<Ack>('POST', `/sessions/${session}/messages`, { text, ...more }),
    /** Adds messages behind the API's back, because that is faster. Every second one is of ada. */
    fill: (alias: string, count: number, text: string) =>
      rows(
        `with s as (update fleetline.sessions set head = head + $2 where alias = $1 returning tenant, id, head)
         insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, author, body)
         select now(), s.tenant, s.id, s.head - $2 + n, gen_random_uuid(), n, 0, 0, 'm' || n, case n % 2 when 1 then 'ada' else 'bob' end,
                jsonb_build_object('parts', jsonb_build_array(jsonb_build_object('type', 'text', 'text', $3::text)))
           from s, generate_series(1, $2::int) n`,
        [alias, count, text],
      ),
    items: async (session: string) => (await api<Page>('GET', `/sessions/${session}/messages`)).items,
    done: (erasure: string) =>
      eventually(
        async () => {
          await rows(AGE) // the test need not wait for the last chunks of a turn
          const receipt = await api<Erasure>('GET', `/erasures/${erasure}`)
          assert.equal(receipt.state, 'done', JSON.stringify(receipt))
          return receipt
        },
        { what: 'the end of the erasure' },
      ),
    ended: (turn: string) =>
      eventually(
        async () => {
          await rows(`update fleetline.tasks set run_at = now() where state = 'waiting'`)
          const found = await api<Turn>('GET', `/turns/${turn}`)
          assert.ok(found.endedAt !== null, JSON.stringify(found))
          return found
        },
        { what: `the end of ${turn}` },
      ),
  }
}

const AGE = `update fleetline.turns set ended_at = now() - interval '1 minute' where ended_at > now() - interval '5 seconds'`

/** A row lock, unlike a plain read, has the number of its transaction, and a commit with a number waits for the standbys. */
const LOCKED = `select kind from fleetline.erasures where xmax <> '0'::xid`

const briefly = ({ seq, parts, author, erased }: Item) => [seq, parts.length, author.id, erased]
const uuidOf = (id: string) => parseId('session', id)!.uuid
const codeOf = (body: Record<string, unknown>) => (body['error'] as { code: string }).code
const erasedOf = ({ frames }: Reader) =>
  frames.flatMap((frame) => (frame.type === 'erased' ? frame.seqs : []))
const until = (what: string, check: () => unknown) => eventually(async () => void (await check()), { what })

test('S35 L2 L4: an erased message leaves its place and nothing that it said; readers are told, at once and when they come back', async (t) => {
  const { gateway, key, api, ask, make, say, items, rows } = await setUp(t)
  await make('talk', ['ada', 'bob'])
  for (const id of ['m1', 'm2', 'm3', 'm4']) {
    const message = { id, parts: [{ type: 'text', text: `text of ${id}` }], metadata: { note: id } }
    await api('POST', '/sessions/talk/messages', { message, author: 'ada' })
  }
  const follow = (query: string, more: Record<string, string> = {}) =>
    readEvents(t, `${gateway}/v1/sessions/talk/events${query}`, { authorization: `Bearer ${key}`, ...more })
  const live = await follow('?after=0')
  await untilSeq(live, 4)
  const away = live.lastId()!
  const first = await api<Erasure>('DELETE', '/sessions/talk/messages/m2')
  assert.deepEqual([first.state, first.kind, first.seq, first.erased.messages], ['done', 'message', 2, 1])
  await until('the erasure', () => assert.deepEqual(erasedOf(live), [2]))
  assert.deepEqual(await api('DELETE', '/sessions/talk/messages/m2'), first, 'a repeat')
  assert.deepEqual(await rows(LOCKED), [{ kind: 'message' }], 'its commit waited for the first one')
  await api('DELETE', '/sessions/talk/messages/m4')
  assert.deepEqual((await items('talk')).map(briefly), [
    [1, 1, 'ada', undefined],
    [2, 0, undefined, true],
    [3, 1, 'ada', undefined],
    [4, 0, undefined, true],
  ])
  const back = await follow('', { 'last-event-id': away })
  await until('what was missed', () => assert.deepEqual(erasedOf(back), [2, 4]))
  const others = [
    await follow('', { 'last-event-id': back.lastId()! }),
    await follow('?after=4'),
    await follow('?after=0'),
  ]
  await say('talk', 'five', { author: 'bob' })
  for (const reader of others) await untilSeq(reader, 5)
  assert.deepEqual(others.map(erasedOf), [[], [2, 4], []])

  const message = { id: 'm2', parts: [{ type: 'text', text: 'text of m2' }] }
  const repeated = await ask('POST', '/sessions/talk/messages', { message, author: 'ada' })
  assert.deepEqual([repeated.status, codeOf(repeated.body)], [410, 'gone'])
  assert.equal((await ask('DELETE', '/sessions/talk/messages/m9')).status, 404)
  const audited = await rows<{ target: string }>(
    `select target from fleetline.audit where action = 'message.erase' order by id`,
  )
  assert.equal(audited.length, 2)
  assert.equal(audited[0]!.target, first.erasure)
})

test('S35 E4 E7: the agent gets no erased message and no summary of one; what was asked and erased is not answered', async (t) => {
  const { api, make, say, ended, calls, rows, database, free } = await setUp(t)
  const { session } = await make('talk', ['ada'], { agent: 'mirror' })
  await ended((await say('talk', `CANARY ${'x'.repeat(3_000)}`)).turn!)
  const state = async () =>
    (
      await rows<{ compacting: string | null; upto: number }>(
        'select compacting, summarised as upto from fleetline.sessions',
      )
    )[0]!
  await until('the summary', async () => assert.ok((await state()).upto > 0))
  const erase = async (seq: number) => {
    const [row] = await rows<{ id: string }>('select id from fleetline.messages where seq = $1', [seq])
    return api<Erasure>('DELETE', `/sessions/talk/messages/${row!.id}`)
  }
  await erase(1)
  assert.deepEqual(
    [await state(), await rows('select 1 from fleetline.summaries')],
    [{ compacting: null, upto: 0 }, []],
  )

  // a compaction that has read the message before it was erased
  const key = { tenant: 1, session: uuidOf(session) }
  const compaction = randomUUID()
  await rows('update fleetline.sessions set compacting = $1', [compaction])
  await rows(
    `insert into fleetline.tasks (id, tenant, track, state, attempt, pod, claimed_at, input, max_attempts)
     select $1, 1, id, 'claimed', 1, 77, now(), '{}', 9 from fleetline.tracks where machine = 'compact' limit 1`,
    [compaction],
  )
  const stale = { outcome: 'done', upto: 2, text: 'CANARY', eraseCount: 0 } as const
  const end = { ...key, compaction, attempt: 1, pod: 77, ...stale }
  assert.deepEqual(await appenderOn(database).endCompaction(end), { type: 'ended' })
  assert.deepEqual(await state(), { compacting: null, upto: 0 })

  const failing = await say('talk', 'fail hold secret')
  await until('the call of an agent that fails', () => assert.equal(calls.length, 2))
  await erase(failing.seq)
  free()
  const { error } = await ended(failing.turn!)
  assert.deepEqual([error?.message], ['Erased'])

  const { turn } = await say('talk', 'hold')
  await until('the call', () => assert.equal(calls.length, 3))
  const { seq } = await say('talk', 'never mind')
  await say('talk', 'a note, which asks nothing', { reply: false })
  await erase(seq)
  free()
  assert.equal((await ended(turn!)).state, 'done')
  const unanswered = async () =>
    rows<{ id: string; outcome: string }>(`select id, outcome from fleetline.turns where epoch = 4`)
  await until('the next turn', async () => assert.equal((await unanswered())[0]?.outcome, 'done'))
  assert.equal(calls.length, 3, 'the agent was not called')
  assert.ok(!JSON.stringify(calls.at(-1)).includes('CANARY'))
})

test('S35 E8: an erased session is gone at once: nobody reads it, its turn ends as gone, and what it said is in no table, index or file', async (t) => {
  const { url, gateway, key, api, ask, make, say, fill, ended, rows, run, done, free } = await setUp(t)
  const { token: ada } = await api<{ token: string }>('POST', '/tokens', { user: 'ada' })
  const canary = `canary-${randomUUID()}`
  const { session } = await make('talk', ['ada', canary], {
    agent: 'mirror',
    title: canary,
    metadata: { canary },
  })
  await ended((await say('talk', `fail ${canary} ${'x'.repeat(5_000)}`, { author: canary })).turn!)
  await fill('talk', ERASURE_MESSAGES + 10, canary)
  const inbox = await readInbox(t, gateway, '', ada)
  await until('the inbox', () => assert.equal(inbox.items.size, 1))
  const headers = { authorization: `Bearer ${key}` }
  const reader = await readEvents(t, `${gateway}/v1/sessions/talk/events?after=500`, headers)
  const { turn } = await say('talk', `hold ${canary}`)
  await until('its words', async () =>
    assert.notEqual((await rows('select from fleetline.chunks')).length, 0),
  )
  for (const text of [dumpOf(url), String(await filesWith(url, canary))]) assert.notEqual(text, '')
  await rows('analyze')

  const receipt = await api<Erasure>('DELETE', '/sessions/talk')
  assert.equal(receipt.session, session)
  for (const [method, path, body] of [
    ['GET', ''],
    ['PATCH', '', { title: 'x' }],
    ['GET', '/messages'],
    ['GET', '/events'],
    ['GET', '/export'],
    ['GET', '/members'],
    ['PUT', '/members/eve'],
    ['POST', '/messages', { text: 'more' }],
    ['POST', '/read', { seq: 1, user: 'ada' }],
    ['DELETE', '/messages/m1'],
  ] as const) {
    const refused = await ask(method, `/sessions/${session}${path}`, body)
    assert.deepEqual([refused.status, codeOf(refused.body)], [410, 'gone'], `${method} ${path}`)
  }
  assert.equal((await ask('GET', `/sessions/${session}`, undefined, ada)).status, 404)
  assert.deepEqual((await api<{ sessions: unknown[] }>('GET', '/sessions')).sessions, [])
  await until('the removal', () => assert.equal(inbox.items.size, 0))
  assert.equal(await reader.ended, true)
  assert.equal((await api<Erasure>('DELETE', `/sessions/${session}`)).erasure, receipt.erasure)
  const { session: next } = await make('talk', ['ada'])
  assert.notEqual(next, session, 'the alias is free')

  const gone = await ended(turn!)
  assert.deepEqual([gone.state, gone.error?.code], ['stopped', 'gone'])
  const { body: stopped } = await ask('POST', `/sessions/${session}/stop`, { turn, epoch: 9 })
  assert.equal(codeOf(stopped), 'gone')
  free()
  await until('the end of the call', async () =>
    assert.equal((await api<Turn>('GET', `/turns/${turn}`)).halted, true),
  )
  const { erased } = await done(receipt.erasure)
  assert.deepEqual(erased, { sessions: 1, messages: 0, memberships: 2 })
  assert.equal((await api<Erasure>('DELETE', `/sessions/${session}`)).erasure, receipt.erasure, 'a repeat')
  assert.deepEqual(await rows(LOCKED), [{ kind: 'session' }], 'its commit waited for the first one')
  const [log] = await rows<{ count: number; last: number }>(
    `select count(*)::int as count, max(seq) as last from fleetline.messages where session = $1`,
    [uuidOf(session)],
  )
  assert.deepEqual(log, { count: ERASURE_MESSAGES + 12, last: ERASURE_MESSAGES + 12 })
  assert.ok(!dumpOf(url).includes(canary))
  await rows('analyze')
  // An open transaction of the pod may hold an old version for a moment.
  await until('the files', async () => assert.deepEqual(await filesWith(url, canary, 'full'), []))
  const write = run((query) =>
    query('update fleetline.sessions set head = head + 1 where id = $1', [uuidOf(session)]),
  )
  await assert.rejects(write, /The session was erased/, 'a pod of the previous release')

  const inDays = (days: number) => new Date(Date.now() + days * 86_400_000)
  assert.equal(await run((query) => deleteNext(query, inDays(29))), false)
  while (await run((query) => deleteNext(query, inDays(31))));
  for (const table of ['sessions', 'messages', 'turns', 'erased_sessions']) {
    const column = table === 'sessions' ? 'id' : 'session'
    assert.deepEqual(
      await rows(`select from fleetline.${table} where ${column} = $1`, [uuidOf(session)]),
      [],
      table,
    )
  }
  assert.equal((await ask('GET', `/sessions/${session}`)).status, 404)
})

test('S35 S9: erasing a user erases its own sessions, and its messages wherever they are; others keep theirs', async (t) => {
  const { url, api, ask, make, say, items, rows, done } = await setUp(t)
  const canary = `canary-${randomUUID()}`
  const [own, shared, left] = [
    await make('own', [canary]),
    await make('shared', [canary, 'bob']),
    await make('left', [canary, 'bob']),
  ]
  for (const alias of ['own', 'shared', 'left']) await say(alias, `${canary} says`, { author: canary })
  await say('shared', 'bob says', { author: 'bob' })
  await api('DELETE', `/sessions/left/members/${canary}`)
  const plain = await make('plain')
  await say('plain', canary, { author: canary })
  const { token } = await api<{ token: string }>('POST', '/tokens', { user: canary })
  assert.equal((await ask('GET', '/inbox', undefined, token)).status, 200)
  const { ticket } = await api<{ ticket: string }>('POST', '/tickets', undefined, token)
  assert.equal(ticket.length, 43)
  const receipt = await api<Erasure>('DELETE', `/users/${canary}`)
  assert.equal((await ask('GET', '/inbox', undefined, token)).status, 401)
  const { erased, remains } = await done(receipt.erasure)
  assert.deepEqual(erased, { sessions: 1, messages: 3, memberships: 2 })
  assert.equal((await ask('GET', `/sessions/${own.session}`)).status, 410)
  assert.deepEqual((await items('shared')).map(briefly), [
    [1, 0, undefined, true],
    [2, 1, 'bob', undefined],
  ])
  for (const { session } of [left, plain])
    assert.deepEqual((await items(session)).map(briefly), [[1, 0, undefined, true]])
  const [{ id }] = (await items('shared')) as [Item]
  const ofMessage = () => api<Erasure>('DELETE', `/sessions/shared/messages/${id}`)
  const already = await ofMessage()
  assert.deepEqual([already.state, already.seq, already.erased.messages], ['done', 1, 0])
  assert.deepEqual(await ofMessage(), already)
  assert.deepEqual(await api('GET', `/sessions/${shared.session}/members`), { members: [{ user: 'bob' }] })
  // what remains is what the receipt says
  await rows('delete from fleetline.token_cuts')
  await rows('delete from fleetline.tickets')
  await rows(`alter table fleetline.audit disable trigger user`)
  await rows(`delete from fleetline.audit`)
  for (const where of ['fleetline.audit', 'fleetline.token_cuts', 'fleetline.tickets'])
    assert.ok(
      remains.some((one) => one.where === where),
      where,
    )
  assert.ok(!dumpOf(url).includes(canary))
})

test('S35: what was begun is finished, whoever goes on, in small steps', async (t) => {
  const { database, run, rows, api, make, say, fill, done: searched } = await setUp(t)
  const { session } = await make('long', ['ada'])
  await say('long', 'first', { author: 'ada' })
  await fill('long', 4_999, 'secret')
  const key = { tenant: 1, session: uuidOf(session) }
  const even = Array.from({ length: 2_500 }, (_, n) => 2 * n + 2)
  assert.equal(await run((query) => eraseMessages(query, key, even)), 2_500)
  const { readErased } = createReplay({ database, cell: 0 })
  const seqs: number[] = []
  for (let after = 0; after < 5;) {
    const page = await readErased(key, { after, to: 5 })
    assert.ok(page.upto > after && page.seqs.length <= 1_000)
    seqs.push(...page.seqs)
    after = page.upto
  }
  assert.deepEqual(
    seqs.toSorted((a, b) => a - b),
    even,
  )

  const { token: eve } = await api<{ token: string }>('POST', '/tokens', { user: 'eve' })
  await run((query) => markErased(query, [key]))
  const added = `insert into fleetline.members (tenant, session, user_id) values (1, $1, 'eve')`
  await rows(added, [key.session])
  const { items } = await api<{ items: unknown[] }>('GET', '/inbox', undefined, eve)
  assert.deepEqual(items, [], 'a pod of the previous release adds a member')
  // a user whose messages are in a session that is erased and not wiped yet
  const { erasure } = await api<Erasure>('DELETE', '/users/bob')
  const { erased } = await searched(erasure)
  const bobs = await rows(`select from fleetline.messages where author = 'bob'`)
  assert.deepEqual([erased.messages, bobs.length], [0, 0])
  await rows(`update fleetline.messages set erased = false, author = 'bob' where seq % 2 = 1 and seq > 1`)
  await rows(`insert into fleetline.erased_sessions (tenant, session) values (1, $1)`, [key.session])
  const left = async () =>
    (
      await rows<{ n: number }>(
        `select count(*)::int as n from fleetline.messages where author is not null or body::text like '%secret%'`,
      )
    )[0]!.n
  const cut = run(async (query) => {
    await wipeNext(query)
    throw new Error('the pod dies')
  })
  await assert.rejects(cut, /the pod dies/)
  assert.equal(await left(), 2_500)
  let [before, steps] = [await left(), 0]
  for (; before > 0; steps += 1) {
    await run(wipeNext)
    const now = await left()
    assert.ok(before - now <= ERASURE_MESSAGES, 'a small step')
    before = now
  }
  assert.ok(steps >= 5)
})

/** Sessions without a pod. Each has `count` messages of a user, of `bytes` bytes. */
async function storedFor(t: TestContext, users: readonly string[], { count = 1, bytes = 1 } = {}) {
  const { database, run, key, ...rest } = await conversationOn(t)
  const rows = <Row extends object>(text: string, values: unknown[] = []) =>
    run((query) => query<Row>(text, values))
  const sessions = []
  for (const user of users) {
    const { session } = await sessionFor(database)
    await rows('update fleetline.sessions set head = $2 where id = $1', [session, count])
    await rows(
      `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, author, body)
       select now(), 1, $1, n, gen_random_uuid(), n, 0, 0, 'm' || n, $3, jsonb_build_object('parts', repeat('x', $4))
         from generate_series(1, $2::int) n`,
      [session, count, user, bytes],
    )
    sessions.push(session)
  }
  return {
    ...rest,
    database,
    run,
    key,
    rows,
    sessions,
    /** The seqs that still have an author. */
    left: async () =>
      (
        await rows<{ author: string; seq: number }>(
          'select author, seq from fleetline.messages where author is not null order by author, seq',
        )
      ).map(({ author, seq }) => `${author} ${seq}`),
    mark: async (session: string) => {
      await run((query) => markErased(query, [{ tenant: 1, session }]))
      await rows('insert into fleetline.erased_sessions (tenant, session) values (1, $1)', [session])
    },
    request: (user: string) =>
      rows(
        `insert into fleetline.erasures (tenant, id, kind, user_id) values (1, gen_random_uuid(), 'user', $1)`,
        [user],
      ),
  }
}

test('S35: a step has 16 MiB at most, or one message more', async (t) => {
  const { run, sessions, left, mark, request } = await storedFor(t, ['ada', 'bob'], {
    count: 6,
    bytes: 4 * 1024 * 1024,
  })
  await request('ada')
  await run(eraseNextOfUser)
  assert.equal((await left())[0], 'ada 5')
  await run(eraseNextOfUser)
  assert.equal((await left())[0], 'bob 1')
  await mark(sessions[1]!)
  await run((query) => wipeNext(query))
  assert.deepEqual(await left(), ['bob 5', 'bob 6'])
  await run((query) => wipeNext(query))
  assert.deepEqual(await left(), [])
})

test('S35: a session or a user whose steps fail does not hold up the others', async (t) => {
  const { database, rows, sessions, left, mark, request } = await storedFor(t, [
    'bad',
    'good',
    'worse',
    'fine',
  ])
  const [bad, good, worse] = sessions as [string, string, string]
  await rows(
    `create function fleetline.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`,
  )
  await rows(
    `create trigger refuse before update on fleetline.messages for each row
       when (old.session in ('${bad}', '${worse}')) execute function fleetline.refuse()`,
  )
  await mark(bad)
  await mark(good)
  await request('worse')
  await request('fine')
  const sessionsStub = { stopTurn: () => assert.fail('no turn is live'), notifyChanged: () => undefined }
  const [users, wipes] = erasureDuties({
    database,
    clock: systemClock(),
    metrics: createMetrics(),
    sessions: sessionsStub,
    onMembershipChanged: () => undefined,
  })
  for (const duty of [users!, wipes!]) {
    const runOnce = () => duty.run({ term: 1, pod: 1 }, () => true)
    await assert.rejects(runOnce(), 'all of it')
    await assert.rejects(runOnce(), 'the first alone')
    await runOnce()
  }
  assert.deepEqual(await left(), ['bad 1', 'worse 1'])
  const open = await rows<{ user: string }>(
    'select user_id as user from fleetline.erasures where done_at is null',
  )
  assert.ok(open.every(({ user }) => user !== 'fine'))
})

test('S35: a session is not done while a pod may still write the last chunks of its turn', async (t) => {
  const { rows, run, key, pod, mark, ask, claimTurn, gather, endTurn } = await storedFor(t, [])
  await ask('a')
  const turn = await claimTurn()
  await gather(turn.id, 1)
  await endTurn(doneBy(key, pod, turn, 1))
  await mark(key.session)
  const step = async () => {
    await rows('update fleetline.erased_sessions set next_at = now()')
    await run((query) => wipeNext(query))
    const [row] = await rows<{ isDone: boolean }>(
      'select wiped_at is not null as "isDone" from fleetline.erased_sessions',
    )
    return row!.isDone
  }
  assert.equal(await step(), false)
  await rows(
    `insert into fleetline.chunks (tenant, turn, attempt, index, count, body) values (1, $1, 1, 0, 1, '["late"]')`,
    [turn.id],
  )
  await rows(AGE)
  assert.equal(await step(), true)
  assert.deepEqual(await rows('select from fleetline.chunks'), [])
})

/** Requests on a fleet without a leader, so nothing but the requests happens. */
async function requestsOn(t: TestContext) {
  const database = await openDatabase(t, await databaseFor(t))
  const [clock, random, metrics] = [systemClock(), systemRandom(), createMetrics()]
  const audit = createAudit({ database, metrics })
  const cuts = createCuts({ database, audit })
  const nothing = () => undefined
  const around = { clock, random, metrics, cell: 0, onMembershipChanged: nothing }
  const sessions = { stopTurn: () => Promise.reject(new Error('no turn')), notifyChanged: nothing }
  const erasuresOn = (on: Transactions) =>
    createErasures({ ...around, database: on, audit, cuts, sessions, auditDays: 1, deadlineMs: 60_000 })
  const directoryOn = (on: Transactions) => createDirectory({ ...around, database: on })
  return { database, cuts, directoryOn, erasuresOn, erasures: erasuresOn(database) }
}

test('S9: a repeat of the erasure of a user gets the same receipt and ends the tokens that were minted since', async (t) => {
  const { cuts, erasures } = await requestsOn(t)
  const { erasure } = await erasures.eraseUser(1, 'ada', COMMAND)
  const mintedMs = Date.now() + 1
  while (Date.now() <= mintedMs) await pause(1)
  assert.equal(await cuts.isCut(1, 'ada', mintedMs), false)
  assert.equal((await erasures.eraseUser(1, 'ada', COMMAND)).erasure, erasure)
  assert.equal(await cuts.isCut(1, 'ada', mintedMs), true)
})

test('if it is not known whether a session was erased, the error names its id: the alias may be taken by then', async (t) => {
  const { erasuresOn } = await requestsOn(t)
  const key = { tenant: 1, session: uuidV7(Date.now(), randomBytes(10)) }
  const id = formatId('session', 0, key.session)
  const lost = erasuresOn({ transaction: async () => ({ type: 'unknown', error: new Error('lost') }) })
  for (const erase of [lost.eraseSession(key, COMMAND), lost.eraseMessage(key, 'm1', COMMAND)])
    await assert.rejects(erase, new RegExp(`Send the request again with the id ${id}`))
})

test('a session that is created while the one with its alias is erased gets the alias', async (t) => {
  const { database, directoryOn } = await requestsOn(t)
  const wish = { alias: 'trip', title: null, metadata: null, agent: null, members: [] }
  const { session: first } = (await directoryOn(database).create(1, wish)).session
  const key = { tenant: 1, session: uuidOf(first) }
  const erasing: Transactions = {
    transaction: (work, options) =>
      database.transaction(
        (query) =>
          work(async (text, values) => {
            const found = await query(text, values)
            const isCreate = text.includes('insert into fleetline.sessions')
            if (isCreate) await database.transaction((ask) => markErased(ask, [key])) // after the first one, nothing is left
            return found as never
          }),
        options,
      ),
  }
  const { session, isNew } = await directoryOn(erasing).create(1, wish)
  assert.deepEqual([isNew, session.alias, session.session === first], [true, 'trip', false])
})

test('mutant: S35 finds an erasure that forgets the author, and one that forgets the tenant', async (t) => {
  const { run, rows, make, say } = await setUp(t)
  const { session } = await make('talk')
  await say('talk', 'hello', { author: 'canary' })
  const key = { tenant: 1, session: uuidOf(session) }
  const erasing = (change: (text: string) => string, tenant = 1) =>
    run((query) => eraseMessages((text, values) => query(change(text), values), { ...key, tenant }, [1]))
  const authors = async () => rows('select author from fleetline.messages')
  assert.equal(await erasing((text) => text, 2), undefined, 'another tenant')
  await erasing((text) => text.replace('author = null, ', ''))
  assert.deepEqual(await authors(), [{ author: 'canary' }], 'the mutant leaves the author')
  await rows('update fleetline.messages set erased = false')
  await rows('delete from fleetline.erased_messages')
  await erasing((text) => text)
  assert.deepEqual(await authors(), [{ author: null }])
})

test('commands erase only with --yes, print the receipt, and say what remains', async (t) => {
  const { gateway, key, make, say, api } = await setUp(t)
  const terminal = { flags: { apiUrl: gateway, apiKey: key } }
  const [ofSessions, users, erasures] = [
    typing(SESSIONS, 'sessions'),
    typing(ERASURES, 'users'),
    typing(ERASURES, 'erasures'),
  ]
  await make('talk', ['ada'])
  await say('talk', 'hello', { author: 'ada' })
  const [{ id }] = (await api<Page>('GET', '/sessions/talk/messages')).items as [Item]
  const unsure = await ofSessions(terminal, 'erase', ['talk'])
  assert.deepEqual([unsure.code, unsure.out], [2, ''])
  assert.match(
    unsure.err,
    /erases session talk \(ses_\w+\) with all its messages. It cannot be undone. To erase, add --yes/,
  )
  const one = await ofSessions(terminal, 'erase', ['talk'], { message: id, yes: true })
  assert.match(one.out, /^erasure\tera_\w+\nkind\tmessage\n[^]*state\tdone\n[^]*messages\t1\n/)
  assert.match(one.out, /\nRemains: Id, seq, role and time of the message \(fleetline.messages\)\n/)
  assert.equal(one.err, '')
  const whole = await ofSessions(terminal, 'erase', ['talk'], { yes: true })
  const [, erasure] = /^erasure\t(\w+)/.exec(whole.out)!
  assert.match((await erasures(terminal, 'get', [erasure!])).out, /kind\tsession/)
  const again = await ofSessions(terminal, 'erase', ['talk'], { yes: true })
  assert.equal(again.code, 3)
  assert.match(again.err, /If it was erased, its alias is free: use the id\. \(GET/)
  const wrong = await erasures(terminal, 'ls', [], { before: 'talk' })
  assert.deepEqual([wrong.code, wrong.out], [2, ''])
  assert.match(wrong.err, /query\.before: must be the id of an erasure/)
  const other = erasure!.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
  const missing = await erasures(terminal, 'get', [other])
  assert.equal(missing.code, 3)
  assert.ok(missing.err.includes(`There is no erasure ${other} in this tenant.`), missing.err)
  assert.equal((await users(terminal, 'erase', ['ada'])).code, 2)
  const { out, err } = await users(terminal, 'erase', ['nobody'], { yes: true })
  assert.match(out, /kind\tuser/)
  const [, ofUser] = /^erasure\t(\w+)/.exec(out)!
  assert.ok(
    err.startsWith(
      `The erasure of user nobody runs. To see whether it is done: fleetline erasures get ${ofUser}.`,
    ),
    err,
  )
  const isDone = async () => {
    const shown = await erasures(terminal, 'get', [ofUser!])
    assert.match(shown.out, /state\tdone/)
    assert.match(shown.err, /^Nothing of this user was found: check the id/)
  }
  await eventually(isDone, { what: 'the end of the erasure' })
  const listed = (await erasures(terminal, 'ls')).out.trimEnd().split('\n')
  assert.deepEqual(
    listed.map((line) => line.split('\t')[1]),
    ['user', 'session', 'message'],
  )
})
