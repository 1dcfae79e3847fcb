// The inbox of a user over HTTP: pages, changes and reads; on two pods in this process.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Ack, Id, InboxFrame, InboxItem, InboxPage, ReadAck, Session } from '@fleetline/protocol'
import { agent } from '../../src/index.ts'
import { Abort } from '../../src/errors.ts'
import { createInbox } from '../../src/inbox/inbox.ts'
import { createByteBudget } from '../../src/lib/byte-budget.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { valueOf } from '../../src/store/database.ts'
import type { HintListener } from '../../src/store/hints.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { readInbox, type InboxReader } from '../support/inbox.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'
import { saying } from '../support/talk.ts'

const REPLY = agent('reply', () => saying('Here you are.'))
const FAIL = agent('fail', () => {
  throw new Abort('invalid', 'of the agent')
})
const HOLD = agent('hold', async function* ({ signal }) {
  yield { type: 'start' }
  await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
})

async function setUp(t: TestContext) {
  const url = await databaseFor(t)
  const { pod, gateway } = await podOn(t, url, { ...CLOSED, drainMs: '0' }, { agents: [REPLY, FAIL, HOLD] })
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const api = async <Body>(
    method: string,
    path: string,
    body?: unknown,
    token: string = key,
    at = gateway,
  ) => {
    const answer = await call(method, `${at}/v1${path}`, body, token)
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer)}`)
    return answer.body as Body
  }
  const database = await openDatabase(t, url)
  return {
    url,
    gateway,
    key,
    api,
    run: async (text: string, values: unknown[] = []) =>
      valueOf(await database.transaction((query) => query(text, values)), 'not run'),
    as: async (user: string, more: object = {}) =>
      (await api<{ token: string }>('POST', '/tokens', { user, ...more })).token,
    make: async (alias: string, members: readonly string[], more: object = {}) =>
      (await api<{ session: string }>('POST', '/sessions', { alias, members, ...more })).session,
    say: (session: string, text: string, author?: string) =>
      api<Ack>('POST', `/sessions/${session}/messages`, { text, ...(author && { author }) }),
    page: (token: string, query = '') => api<InboxPage>('GET', `/inbox${query}`, undefined, token),
  }
}

/** A follower on a pod that never gets a hint, and makes no commit itself. */
async function followWithoutHints(t: TestContext, url: string, user: string) {
  const [clock, metrics] = [systemClock(), createMetrics()]
  const database = await openDatabase(t, url)
  const listeners: HintListener[] = []
  const listen = (_: string, listener: HintListener) => {
    listeners.push(listener)
    return () => undefined
  }
  const hints = { listen, listenTo: () => () => undefined, send: () => undefined }
  const budget = createByteBudget({ clock, most: 1e6, holdMs: 60_000, onCut: () => undefined })
  const reserve = () => ({ leave: () => undefined })
  const inbox = createInbox({ database, clock, metrics, budget, reserve, hints, cell: 0 })
  const [leaving, frames] = [new AbortController(), [] as InboxFrame[]]
  atEnd(t, () => leaving.abort())
  const following = await inbox.follow({ tenant: 1, user, sessions: undefined }, { show: 'all', limit: 50 })
  const take = async () => {
    for await (const frame of following({ signal: leaving.signal, cut: () => leaving.abort() }))
      frames.push(frame)
  }
  void take()
  return { frames, poll: () => listeners.forEach((listener) => listener('poll')) }
}

const brief = ({ alias, unread, attention, preview }: InboxItem) => [alias, unread, attention, preview?.text]
const until = (what: string, check: () => unknown) => eventually(async () => void (await check()), { what })
const itemIn = ({ items }: InboxReader, session: string) => items.get(session)

test('a page shows what is new, what needs attention, and the last message; a key names the user, a user has its own inbox only', async (t) => {
  const { as, api, make, say, page, gateway, key } = await setUp(t)
  const ada = await as('ada')
  await make('empty', ['ada'])
  for (const name of ['reply', 'fail', 'hold']) {
    await make(name, ['ada', 'bob'], { agent: name })
    await say(name, `to ${name}`, 'bob')
  }
  await make('notes', ['ada'])
  await say('notes', 'one', 'ada')
  await make('of bob'.replace(' ', '-'), ['bob'])
  const states = [
    ['notes', 0, null, 'one'],
    ['hold', 1, 'working', 'to hold'],
    ['fail', 1, 'failed', 'to fail'],
    ['reply', 2, 'finished', 'Here you are.'],
    ['empty', 0, null, undefined],
  ]
  const sorted = (rows: readonly unknown[][]) => rows.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1))
  await until('each state', async () => {
    assert.deepEqual(sorted((await page(ada)).items.map(brief)), sorted(states))
  })
  const { items, unreadTotal, attentionTotal, next } = await page(ada)
  assert.deepEqual([unreadTotal, attentionTotal, next], [3, 3, null])
  assert.deepEqual(
    items.map(({ updatedAt }) => updatedAt),
    items
      .map(({ updatedAt }) => updatedAt)
      .toSorted()
      .toReversed(),
  )
  const aliases = async (query: string, token = ada) =>
    (await page(token, query)).items.map(({ alias }) => alias ?? '')
  assert.deepEqual(await aliases('?show=attention'), ['fail', 'hold', 'reply'])
  assert.deepEqual((await aliases('?show=unread')).toSorted(), ['fail', 'hold', 'reply'])
  assert.deepEqual(await aliases('?show=archived'), [])
  for (const show of ['all', 'unread', 'attention']) {
    const paged: (string | null)[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const one: InboxPage = await page(ada, `?show=${show}&limit=2${cursor && `&cursor=${cursor}`}`)
      paged.push(...one.items.map(({ alias }) => alias))
      cursor = one.next
    }
    assert.deepEqual(paged, await aliases(`?show=${show}`))
  }
  assert.deepEqual(await aliases('', await as('ada', { sessions: ['reply'] })), ['reply'])
  assert.deepEqual(await aliases('?user=bob', key), await aliases('', await as('bob')))
  for (const [query, token, status] of [
    ['', key, 400],
    ['?user=bob', ada, 403],
    ['?cursor=1.x', ada, 400],
    [`?cursor=0.${'9'.repeat(16)}.ffffffff-ffff-ffff-ffff-ffffffffffff`, ada, 200],
    ['?show=none', ada, 400],
  ] as const)
    assert.equal((await call('GET', `${gateway}/v1/inbox${query}`, undefined, token)).status, status, query)

  await api('POST', '/sessions/notes/messages', {
    message: { role: 'system', parts: [{ type: 'text', text: 'secret' }] },
  })
  const shown = (all: InboxPage) => all.items.find(({ alias }) => alias === 'notes')!.preview
  assert.deepEqual(shown(await page(ada)), { seq: 2, role: 'system', text: '' }, 'S23')
  assert.equal(shown(await page(key, '?user=ada'))!.text, 'secret')
})

test('a follower enters while its user is added to many sessions', async (t) => {
  const { as, api, make, gateway } = await setUp(t)
  const ada = await as('ada')
  const sessions = await Promise.all(Array.from({ length: 20 }, (_, n) => make(`s-${n}`, ['bob'])))
  const first = await readInbox(t, gateway, '', ada)
  const adding = Promise.all(sessions.map((session) => api('PUT', `/sessions/${session}/members/ada`)))
  const readers = [first, await readInbox(t, gateway, '', ada)]
  await adding
  for (const reader of readers)
    await until('all sessions', () => assert.equal(reader.items.size, sessions.length))
})

test('one person on two devices: reading on one clears the unread count on the other; own messages are never unread', async (t) => {
  const { url, as, api, make, say, key } = await setUp(t)
  const there = await podOn(t, url, CLOSED)
  const ada = await as('ada')
  const session = await make('talk', ['ada', 'bob'], { agent: 'fail' })
  const device = await readInbox(t, there.gateway, '', ada)
  const shows = (what: string, unread: number, attention: string | null) =>
    until(what, () => {
      const item = itemIn(device, session)!
      assert.deepEqual([item.unread, item.attention], [unread, attention])
    })
  await say('talk', 'from bob', 'bob')
  await shows('the message of bob and the failure', 1, 'failed')
  assert.deepEqual([device.frames.at(-1)!.unreadTotal, device.frames.at(-1)!.attentionTotal], [1, 1])
  const read = (seq: number, token = ada) =>
    api<ReadAck>('POST', '/sessions/talk/read', { seq, ...(token === key && { user: 'ada' }) }, token)
  assert.deepEqual(await read(1), { read: 1, unread: 0 })
  await shows('the read of the other device', 0, null)
  assert.deepEqual(await read(0), { read: 1, unread: 0 }, 'a cursor does not go back')
  assert.deepEqual(await read(99, key), { read: 1, unread: 0 }, 'nor beyond the head')
  const { rev } = itemIn(device, session)!
  await say('talk', 'note', 'cyd')
  await say('talk', 'own', 'ada')
  await until('the own message', () => {
    const { unread, head, preview } = itemIn(device, session)!
    assert.deepEqual([unread, head, preview?.text], [0, 3, 'own'])
  })
  assert.ok(itemIn(device, session)!.rev > rev)
  const refused = async (user: string) =>
    (await call('POST', `${there.gateway}/v1/sessions/talk/read`, { seq: 1, user }, key)).status
  assert.deepEqual([await refused('nobody'), await refused('bob')], [404, 200])
})

test('I1: a new member gets its session by a hint, and what changes', async (t) => {
  const { url, as, api, make, say, gateway } = await setUp(t)
  const there = await podOn(t, url, { ...CLOSED, hintPollMs: '60000' })
  const ada = await as('ada')
  const session = await make('talk', ['bob'])
  const readers = [await readInbox(t, there.gateway, '', ada), await readInbox(t, gateway, '', ada)]
  await api('PUT', '/sessions/talk/members/ada')
  for (const reader of readers)
    await until('the session that ada was added to', () => assert.equal(itemIn(reader, session)?.head, 0))
  await say('talk', 'hello', 'bob')
  await api('POST', '/sessions/talk/read', { seq: 1 }, ada)
  for (const reader of readers) {
    await until('the message, read', () => {
      const { head, unread } = itemIn(reader, session)!
      assert.deepEqual([head, unread], [1, 0])
    })
    assert.deepEqual(reader.broken, [])
  }
})

test('I1: without any hint, a poll finds new, changed, read and lost sessions', async (t) => {
  const { url, api, make, say } = await setUp(t)
  const [changed, lost] = [await make('changed', ['ada', 'bob']), await make('lost', ['ada'])]
  const { frames, poll } = await followWithoutHints(t, url, 'ada')
  await until('the first page', () => assert.equal(frames.length, 1))
  await say('changed', 'hello', 'bob')
  await api('POST', '/sessions/changed/read', { seq: 1, user: 'ada' })
  await api('DELETE', '/sessions/lost/members/ada')
  const added = await make('added', ['ada'])
  assert.equal(frames.length, 1)
  poll()
  await until('what has changed', () => {
    const since = frames.slice(1)
    const items = new Map(since.flatMap(({ items }) => items.map((item) => [item.session, item.read])))
    assert.deepEqual([items.get(changed as Id<'session'>), items.get(added as Id<'session'>)], [1, 0])
    assert.deepEqual(
      since.flatMap(({ removed }) => removed.map(({ session }) => session)),
      [lost],
    )
  })
})

test('I3: a user that was removed gets the removal and nothing more; added again, it gets a newer item', async (t) => {
  const { url, as, api, make, say, gateway } = await setUp(t)
  const there = await podOn(t, url, CLOSED)
  const ada = await as('ada')
  const [session, other] = [await make('talk', ['ada', 'bob']), await make('other', ['ada', 'bob'])]
  const empty = await make('empty', ['ada'])
  const readers = [await readInbox(t, gateway, '', ada), await readInbox(t, there.gateway, '', ada)]
  for (const seq of [1, 2, 3]) {
    await say('talk', `${seq}`, 'bob')
    await api('POST', '/sessions/talk/read', { seq }, ada)
  }
  for (const reader of readers) await until('the reads', () => assert.equal(itemIn(reader, session)?.read, 3))
  const before = itemIn(readers[0]!, session)!
  await api('DELETE', '/sessions/empty/members/ada')
  for (const reader of readers)
    await until('the removal from an empty session', () => assert.equal(itemIn(reader, empty), undefined))
  await api('DELETE', '/sessions/talk/members/ada')
  const counts = readers.map(({ frames }) => frames.length)
  await say('talk', 'after', 'bob')
  await say('other', 'elsewhere', 'bob')
  for (const [n, reader] of readers.entries()) {
    await until('the other session', () => assert.equal(itemIn(reader, other)?.head, 1))
    const since = reader.frames.slice(counts[n])
    assert.ok(since.every(({ items }) => items.every((item) => item.session !== session || item.head < 4)))
    await until('the removal', () => assert.equal(itemIn(reader, session), undefined))
  }
  await api('PUT', '/sessions/talk/members/ada')
  for (const reader of readers)
    await until('the session again', () => {
      assert.ok(itemIn(reader, session)!.rev > before.rev)
      assert.equal(itemIn(reader, session)!.unread, 4)
    })
  for (const { broken } of readers) assert.deepEqual(broken, [])
})

test('I3: a user that was removed from a session beyond its newest 1,000 gets the removal, by a hint', async (t) => {
  const { url, as, api, make, run, gateway } = await setUp(t)
  const there = await podOn(t, url, { ...CLOSED, hintPollMs: '60000' })
  const ada = await as('ada')
  const old = await make('old', ['ada'])
  await run(`update fleetline.sessions set updated_at = now() - interval '1 day'`)
  await run(
    `with made as (insert into fleetline.sessions (tenant, id)
                   select 1, (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid
                     from generate_series(1, 1000) n returning tenant, id)
     insert into fleetline.members (tenant, session, user_id) select tenant, id, 'ada' from made`,
  )
  const readers = [await readInbox(t, gateway, '', ada), await readInbox(t, there.gateway, '', ada)]
  for (const { frames } of readers) await until('the first page', () => assert.equal(frames.length, 1))
  await api('DELETE', '/sessions/old/members/ada')
  for (const { frames } of readers)
    await until('the removal', () =>
      assert.deepEqual(
        frames.flatMap(({ removed }) => removed.map(({ session }) => session)),
        [old],
      ),
    )
})

test('the day of a member follows its session, whichever release writes: the page stays in order', async (t) => {
  const { as, make, say, page, run } = await setUp(t)
  const ada = await as('ada')
  for (const alias of ['a', 'b', 'c']) await make(alias, ['ada'])
  const past = (alias: string, days: number) =>
    run(`update fleetline.sessions set updated_at = now() - $2 * interval '1 day' where alias = $1`, [
      alias,
      days,
    ])
  await past('a', 1)
  await past('b', 400)
  await past('c', 3)
  const order = async (query = '') => (await page(ada, query)).items.map(({ alias }) => alias)
  assert.deepEqual(await order(), ['a', 'c', 'b'])
  await say('b', 'today', 'bob')
  assert.deepEqual(await order(), ['b', 'a', 'c'])
  const wrong = await run(
    `select from fleetline.members m join fleetline.sessions s on s.tenant = m.tenant and s.id = m.session
      where m.day <> (s.updated_at at time zone 'UTC')::date`,
  )
  assert.equal(wrong.length, 0)
})

test('a session is archived for all members, live on every pod; a message brings it back, a reply and a new member do not', async (t) => {
  const { url, as, api, make, say, page, gateway } = await setUp(t)
  const there = await podOn(t, url, CLOSED)
  const [ada, bob] = [await as('ada'), await as('bob')]
  const session = await make('talk', ['ada', 'bob'], { agent: 'hold' })
  await make('other', ['ada'])
  const readers = [await readInbox(t, gateway, '', ada), await readInbox(t, there.gateway, '', bob)]
  const isArchived = async (wanted: boolean) => {
    for (const reader of readers)
      await until('the archive', () => assert.equal(itemIn(reader, session)?.archived, wanted))
  }
  const inArchive = async (token: string) =>
    (await page(token, '?show=archived')).items.map(({ alias }) => alias)
  const { turn, epoch } = await say('talk', 'one', 'bob')
  assert.equal((await api<Session>('PATCH', '/sessions/talk', { archived: true }, ada)).archived, true)
  await isArchived(true)
  assert.deepEqual([await inArchive(ada), await inArchive(bob)], [['talk'], ['talk']])
  assert.deepEqual(
    (await page(ada)).items.map(({ alias }) => alias),
    ['other'],
  )
  await api('POST', '/sessions/talk/stop', { turn, epoch }, ada)
  await api('PUT', '/sessions/talk/members/eve')
  assert.deepEqual(await inArchive(await as('eve')), ['talk'])
  assert.equal((await api<Session>('GET', '/sessions/talk')).archived, true)

  await say('talk', 'two', 'bob')
  await isArchived(false)
  assert.equal((await api<Session>('GET', '/sessions/talk')).archived, false)
  assert.deepEqual(await inArchive(await as('eve')), [])
  await api('PATCH', '/sessions/talk', { archived: true })
  await isArchived(true)
  await api('PATCH', '/sessions/talk', { archived: false, title: 'Back' })
  await isArchived(false)
  for (const reader of readers) {
    await until('the title', () => assert.equal(itemIn(reader, session)?.title, 'Back'))
    assert.deepEqual(reader.broken, [])
  }
})
