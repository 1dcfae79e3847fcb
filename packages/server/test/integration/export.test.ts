// Exports over HTTP and in a process: whole, for each caller what it may see, and cut off in the middle.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { ExportLine, Session } from '@fleetline/protocol'
import { SESSIONS } from '../../src/cli/sessions.ts'
import { valueOf } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { call } from '../support/http.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'
import { typing } from '../support/terminal.ts'

const type = typing(SESSIONS, 'sessions')

async function setUp(t: TestContext, flags: Readonly<Record<string, string>> = {}) {
  const url = await databaseFor(t)
  const { pod, gateway } = await podOn(t, url, { ...CLOSED, ...flags })
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const api = async <Body>(method: string, path: string, body?: unknown, token: string = key) => {
    const answer = await call(method, `${gateway}/v1${path}`, body, token)
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer)}`)
    return answer.body as Body
  }
  const database = await openDatabase(t, url)
  const exported = async (token = key) => {
    const headers = { authorization: `Bearer ${token}` }
    const answer = await fetch(`${gateway}/v1/sessions/talk/export`, { headers })
    assert.equal(answer.headers.get('content-type'), 'application/x-ndjson')
    const lines = (await answer.text()).trimEnd().split('\n')
    return lines.map((line) => JSON.parse(line) as ExportLine)
  }
  const run = async (text: string, values: unknown[] = []) =>
    valueOf(await database.transaction((query) => query(text, values)), 'not run')
  /** Adds messages behind the API's back, because that is faster. */
  const fill = (count: number, bytes: number) =>
    run(
      `with s as (update fleetline.sessions set head = head + $1 where alias = 'talk' returning tenant, id, head)
       insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
       select now(), s.tenant, s.id, s.head - $1 + n, gen_random_uuid(), n, 0, 0, 'm' || n,
              jsonb_build_object('parts', jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat('x', $2))))
         from s, generate_series(1, $1::int) n`,
      [count, bytes],
    )
  const as = async (user: string) => (await api<{ token: string }>('POST', '/tokens', { user })).token
  return { pod, gateway, key, api, exported, run, fill, as }
}

test('L2: an export has the session, its summary, every message and an end; a user gets no system text and no summary', async (t) => {
  const { pod, gateway, key, api, exported, fill, run, as } = await setUp(t)
  const made = await api<Session>('POST', '/sessions', {
    alias: 'talk',
    members: ['ada'],
    metadata: { a: 1 },
  })
  await api('POST', '/sessions/talk/messages', {
    message: { role: 'system', parts: [{ type: 'text', text: 'be kind' }] },
  })
  await api('POST', '/sessions/talk/messages', { text: 'hello\u0085', author: 'ada' })
  await fill(1_000, 3_000)
  await run(`update fleetline.sessions set summarised = 2`)
  await run(
    `insert into fleetline.summaries (tenant, session, upto, text) select tenant, id, 2, 'in short' from fleetline.sessions`,
  )
  const lines = await exported()
  const [first, summary, ...rest] = lines
  const end = rest.at(-1)
  const messages = rest.slice(0, -1)
  assert.ok(first?.type === 'session')
  assert.deepEqual([first.format, first.members], [1, ['ada']])
  assert.deepEqual(first.session, { ...made, head: 1_002, updatedAt: first.session.updatedAt })
  assert.deepEqual(summary, { type: 'summary', through: 2, text: 'in short' })
  assert.deepEqual(
    messages.map((line) => line.type === 'message' && line.seq),
    Array.from({ length: 1_002 }, (_, index) => index + 1),
  )
  assert.deepEqual(end, { type: 'end', session: made.session, messages: 1_002 })
  const inProcess: ExportLine[] = []
  for await (const line of pod.sessions.export('talk')) inProcess.push(line)
  assert.deepEqual(inProcess.slice(1), lines.slice(1))

  const typed = await type({ flags: { apiUrl: gateway, apiKey: key } }, 'export', ['talk'])
  const printed = typed.out.trimEnd().split('\n')
  assert.equal(typed.code, 0)
  assert.deepEqual(
    printed.slice(1).map((line) => JSON.parse(line) as ExportLine),
    lines.slice(1),
  )
  assert.doesNotMatch(typed.out, /\u0085/)

  const seen = await exported(await as('ada'))
  assert.deepEqual(seen.at(-1), end)
  const text = JSON.stringify(seen)
  for (const hidden of ['be kind', 'in short']) assert.ok(!text.includes(hidden), hidden)
  assert.ok(text.includes('hello'))
})

test('an export whose reader leaves ends, and gives its place among the followers back', async (t) => {
  const { pod, api, fill } = await setUp(t, { maxFollowers: '1' })
  await api('POST', '/sessions', { alias: 'talk' })
  await fill(300, 10)
  const leaving = new AbortController()
  const [lines, others] = [leaving.signal, undefined].map((signal) =>
    pod.sessions.export('talk', signal && { signal })[Symbol.asyncIterator](),
  ) as [AsyncIterator<ExportLine>, AsyncIterator<ExportLine>]
  assert.equal((await lines.next()).value?.type, 'session')
  await assert.rejects(others.next(), { code: 'unavailable', message: /as many followers as it takes/ })
  leaving.abort()
  for (let line = await lines.next(); !line.done; line = await lines.next())
    assert.notEqual(line.value.type, 'end', 'it is not whole')
  assert.equal((await pod.sessions.export('talk')[Symbol.asyncIterator]().next()).value?.type, 'session')
})
