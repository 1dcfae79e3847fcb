// Sessions over HTTP, on one pod in this process.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MESSAGE_LIMITS, SESSION_LIMITS, type Session } from '@fleetline/protocol'
import { refusalSchema } from '../../src/door/refusal.ts'
import { databaseFor } from '../support/database.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { readEvents, untilSeq } from '../support/reader.ts'

const HELLO = [{ type: 'text', text: 'hello' }]

test('a session is created, written to and found; repeats, conflicts and stale heads get answers of their own', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t))
  const made = await makeSession(gateway, { title: 'Trip to Rome', members: ['ada', 'ben'] })
  assert.match(made.session, /^ses_0000[0-9a-f]{32}$/)
  assert.equal(made.title, 'Trip to Rome')
  assert.equal(made.head, 0)
  const url = `${gateway}/v1/sessions/${made.session}`
  const send = (body: object) => call('POST', `${url}/messages`, body)

  const first = await send({ text: 'hello', author: 'ada' })
  assert.match(String(first.body['id']), /^msg_0000[0-9a-f]{32}$/)
  assert.equal(first.status, 200)
  assert.equal(first.body['seq'], 1)
  assert.equal(first.body['deduped'], false)

  const message = { id: 'm-2', role: 'assistant', parts: HELLO, metadata: { model: 'x' } }
  assert.deepEqual((await send({ message })).body, { id: 'm-2', seq: 2, deduped: false })
  const reordered = { metadata: { model: 'x' }, parts: [{ text: 'hello', type: 'text' }], role: 'assistant' }
  assert.deepEqual((await send({ message: { ...reordered, id: 'm-2' } })).body, {
    id: 'm-2',
    seq: 2,
    deduped: true,
  })
  for (const other of [
    { parts: [{ type: 'text', text: 'bye' }] },
    { role: 'user' },
    { metadata: { model: 'y' } },
  ]) {
    const refused = await send({ message: { ...message, ...other } })
    assert.equal(refused.status, 409)
    assert.equal(refusalSchema.parse(refused.body).error.code, 'conflict')
  }
  const stale = await send({ text: 'late', ifHead: 1 })
  const { error } = refusalSchema.parse(stale.body)
  assert.equal(stale.status, 409)
  assert.equal(error.code, 'stale')
  assert.deepEqual(error.current, { head: 2 })
  assert.equal((await send({ message: { id: 'm-3', parts: HELLO }, ifHead: 2 })).body['seq'], 3)
  assert.equal((await call('GET', url)).body['head'], 3)
})

test('sessions are listed page by page, the newest first', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t))
  const sessions = await Promise.all(
    ['a', 'b', 'c', 'd', 'e'].map((title) => makeSession(gateway, { title })),
  )
  const made = sessions
    .map(({ session }) => session)
    .toSorted()
    .toReversed() // ids sort by time
  const list = async (query: string) => {
    const { status, body } = await call('GET', `${gateway}/v1/sessions${query}`)
    assert.equal(status, 200, query)
    return (body['sessions'] as Session[]).map(({ session }) => session)
  }
  assert.deepEqual(await list(''), made)
  assert.deepEqual(await list('?limit=2'), made.slice(0, 2))
  assert.deepEqual(await list(`?limit=2&before=${made[1]}`), made.slice(2, 4))
  assert.deepEqual(await list(`?before=${made[4]}`), [])
  for (const [query, status] of [
    ['before=ses_1', 404],
    [`before=${made[0]!.replace('ses_0000', 'ses_0001')}`, 404],
    ['limit=101', 400],
  ] as const)
    assert.equal((await call('GET', `${gateway}/v1/sessions?${query}`)).status, status, query)
})

test('an alias names one session even if many create it at once, and works wherever the id does', async (t) => {
  const url = await databaseFor(t)
  const pods = await Promise.all([podOn(t, url, { demoAgent: 'yes' }), podOn(t, url, { demoAgent: 'yes' })])
  const make = (body: object, n = 0) => call('POST', `${pods[n % 2]!.gateway}/v1/sessions`, body)
  const wish = { alias: 'a.b:c@d_e-1', title: 'first', members: ['ada'] }
  const made = await Promise.all(Array.from({ length: 8 }, (_, n) => make(wish, n)))
  assert.deepEqual(
    made.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 200, 200, 200, 200, 200, 200, 201],
  )
  const { session, alias } = made[0]!.body as Session
  for (const { body } of made) {
    assert.equal(body['session'], session)
    assert.equal(body['alias'], wish.alias)
  }

  const again = await make({ ...wish, title: 'second', members: ['ben'] }, 1)
  assert.equal(again.status, 200)
  assert.equal(again.body['title'], 'first') // the session stays as it was created
  const other = await make({ ...wish, agent: 'demo' })
  const { error } = refusalSchema.parse(other.body)
  assert.equal(other.status, 409)
  assert.equal(error.code, 'conflict')
  assert.match(error.text, /The alias "a\.b:c@d_e-1" belongs to session ses_\w+, which has no agent/)
  for (const bad of ['', '.', '..', 'a/b', 'a b', 'ses_1', session, 'x'.repeat(129)])
    assert.equal((await make({ alias: bad })).status, 400, bad)

  const at = `${pods[1].gateway}/v1/sessions/${alias}`
  assert.equal((await call('POST', `${at}/messages`, { text: 'hello' })).body['seq'], 1)
  assert.equal((await call('GET', at)).body['session'], session)
  assert.deepEqual((await call('GET', `${at}/members`)).body, { members: [{ user: 'ada' }] })
  const reader = await readEvents(t, `${at}/events`)
  await untilSeq(reader, 1)
  assert.equal(reader.frames[0]!.session, session, 'frames carry the id')
  assert.deepEqual((await call('GET', `${pods[0].gateway}/v1/sessions?before=${alias}`)).body, {
    sessions: [],
  })
})

test('a member is added and removed once, and concurrent additions keep to the limit', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t))
  const users = Array.from({ length: SESSION_LIMITS.members - 2 }, (_, n) => `u${n}`)
  const { session } = await makeSession(gateway, { members: users })
  const url = `${gateway}/v1/sessions/${session}/members`
  const members = async () => {
    const { body } = await call('GET', url)
    return (body['members'] as { user: string }[]).map(({ user }) => user)
  }
  assert.deepEqual(new Set(await members()), new Set(users))

  const longest = '\u{4e16}'.repeat(SESSION_LIMITS.userIdLength)
  const asked = [longest, 'ada@example.com', 'late', 'later']
  const answers = await Promise.all(asked.map((user) => call('PUT', `${url}/${encodeURIComponent(user)}`)))
  const refused = answers.filter(({ status }) => status !== 200)
  assert.deepEqual(
    refused.map(({ status, body }) => [status, refusalSchema.parse(body).error.code]),
    [
      [400, 'too_many'],
      [400, 'too_many'],
    ],
  )
  assert.equal((await members()).length, SESSION_LIMITS.members)
  assert.deepEqual(await call('PUT', `${url}/u0`), { status: 200, body: { user: 'u0' } }, 'a member already')
  for (const _ of ['now', 'already'])
    assert.deepEqual(await call('DELETE', `${url}/u0`), { status: 200, body: { user: 'u0' } })
  assert.ok(!(await members()).includes('u0'))
  assert.equal((await call('PUT', `${url}/a%07b`)).status, 400)
})

test('S15: a message that cannot be stored is rejected, and the error names the wrong field', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t))
  const { session } = await makeSession(gateway)
  const part = (fields: object) => ({ message: { parts: [{ type: 'data-x', ...fields }] } })
  const cases: readonly (readonly [body: object, status: number, code: string, text: RegExp])[] = [
    [{}, 400, 'invalid', /body: takes message or text/],
    [{ text: 'a', message: { parts: HELLO } }, 400, 'invalid', /takes message or text/],
    [{ message: { parts: [] } }, 400, 'invalid', /body.message.parts/],
    [{ message: { parts: [{ text: 'no type' }] } }, 400, 'invalid', /body.message.parts.0.type/],
    [{ message: { id: 'a b', parts: HELLO } }, 400, 'invalid', /body.message.id: 1 to 64 of/],
    [{ message: { parts: HELLO, role: 'root' } }, 400, 'invalid', /body.message.role/],
    [{ text: 'a', author: 'a\u0007b' }, 400, 'invalid', /body.author: holds a control character/],
    [{ text: 'a', ifHead: -1 }, 400, 'invalid', /body.ifHead/],
    [part({ data: 'a\0b' }), 400, 'invalid', /body.message: the character U\+0000/],
    [part({ data: '\ud800' }), 400, 'invalid', /half a surrogate pair/],
    [part({ constructor: 1 }), 400, 'invalid', /constructor is not allowed/],
    [{ message: { parts: Array(257).fill(HELLO[0]) } }, 400, 'invalid', /body.message.parts/],
    [{ text: 'x'.repeat(MESSAGE_LIMITS.bytes) }, 413, 'too_large', /over 262144 bytes/],
    [
      { message: { parts: HELLO, metadata: { a: 'é'.repeat(8_200) } } },
      413,
      'too_large',
      /body.message.metadata/,
    ],
  ]
  for (const [body, status, code, text] of cases) {
    const answer = await call('POST', `${gateway}/v1/sessions/${session}/messages`, body)
    const { error } = refusalSchema.parse(answer.body)
    const sent = JSON.stringify(body).slice(0, 80)
    assert.equal(answer.status, status, `${answer.status} for ${sent}`)
    assert.equal(error.code, code, `${error.code} for ${sent}`)
    assert.match(error.text, text)
  }
  const raw = await fetch(`${gateway}/v1/sessions/${session}/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"text": "a", "__proto__": {"admin": true}}',
  })
  assert.equal(raw.status, 400)
  assert.equal((await call('GET', `${gateway}/v1/sessions/${session}`)).body['head'], 0, 'nothing was stored')
})

test('a session gets another title and other metadata; what is left out stays, and what is too large is refused', async (t) => {
  const { gateway } = await podOn(t, await databaseFor(t))
  const made = await makeSession(gateway, { alias: 'rome', metadata: { project: 'p1' } })
  assert.deepEqual([made.metadata, made.title, made.archived], [{ project: 'p1' }, null, false])
  const change = (body: object) => call('PATCH', `${gateway}/v1/sessions/rome`, body)
  const titled = await change({ title: 'Trip to Rome' })
  assert.deepEqual(titled.body, { ...made, title: 'Trip to Rome' })
  assert.deepEqual((await change({ metadata: { project: 'p2' } })).body['metadata'], { project: 'p2' })
  const emptied = await change({ title: null, metadata: null, archived: true })
  assert.deepEqual(emptied.body, { ...made, metadata: null, archived: true })
  assert.deepEqual((await call('GET', `${gateway}/v1/sessions/rome`)).body, emptied.body)
  for (const [body, text] of [
    [{}, /body: give title, metadata or archived/],
    [{ title: '' }, /body.title/],
    [{ archived: 'yes' }, /body.archived/],
    [
      { metadata: { text: 'x'.repeat(SESSION_LIMITS.metadataBytes) } },
      /body.metadata: over 4096 bytes of JSON/,
    ],
    [{ metadata: { text: '\u0000' } }, /body.metadata: /],
  ] as const) {
    const refused = await change(body)
    assert.equal(refused.status, 400, JSON.stringify(refused))
    assert.match(refusalSchema.parse(refused.body).error.text, text)
  }
  assert.equal((await call('PATCH', `${gateway}/v1/sessions/nobody`, { title: 'x' })).status, 404)
})
