// S15 S18 S21: sends hostile values in every field of every public route: text that PostgreSQL cannot store, JSON that breaks
// parsers, values outside the allowed range. The pod accepts each value or rejects it with a documented error code. It never
// answers 5xx and logs no error, and later requests still work. Each route must first accept a request without a hostile value:
// otherwise a value could be rejected for another reason.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { refusalSchema } from '../../src/door/refusal.ts'
import { nameOf, type Route } from '../../src/door/route.ts'
import { agent, hold, task } from '../../src/index.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { everyField, plainRequest, requestWith, type Known } from '../support/route-fields.ts'
import { saying } from '../support/talk.ts'
import { TOKEN_KEYS } from '../support/tokens.ts'

const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

/** Values for bodies, as JSON text: JSON.stringify cannot make some of them. */
const IN_BODIES: readonly string[] = [
  String.raw`"a\u0000b"`,
  String.raw`"\ud800"`,
  String.raw`{"k\ud800":1,"\u0000":2}`,
  '{"__proto__":{"isAdmin":true}}',
  '{"constructor":{"prototype":{"isAdmin":true}}}',
  '"__proto__"',
  '"ses_0000"',
  '""',
  JSON.stringify('x'.repeat(70_000)),
  JSON.stringify('🙂'.repeat(64)),
  '"9999-12-31T23:59:59-14:00"',
  '"0000-01-01T00:00:00Z"',
  '"https://[::ffff:127.0.0.1]/"',
  String.raw`"https://example.com/\r\nX: y"`,
  '1e400',
  '-0',
  '-1',
  '2147483648',
  '9007199254740991',
  '9007199254740993',
  'null',
  nested(66),
  nested(100_000),
]
/** Values for paths and queries, percent-encoded. */
const IN_ADDRESSES: readonly string[] = [
  '%00',
  '%ff',
  '%ED%A0%80',
  '__proto__',
  '..%2f..',
  'ses_0000',
  `tsk_0000${'f'.repeat(32)}`,
  'x'.repeat(1_000),
  encodeURIComponent('🙂'.repeat(64)),
  '-1',
  '0',
  '1e9',
  '2147483647',
  '9999999999',
]
const IN_HEADERS: readonly string[] = [
  '',
  '\xff',
  '-1',
  '1.2.3',
  '2147483647',
  '9999999999.1',
  `0${'.9999999999'.repeat(3)}`,
  '2147483647.2147483647.2147483647.2147483647',
]

function valuesFor(field: string): readonly string[] {
  const [part, name] = field.split('.')
  if (part === 'query') return [...IN_ADDRESSES, `1&${name}=2`, `1&${name}[]=2`]
  return part === 'body' ? IN_BODIES : part === 'headers' ? IN_HEADERS : IN_ADDRESSES
}

test('S15 S18 S21: hostile values in any field of any route never cause a 5xx, and later requests still work', async (t) => {
  const { ask, knownFor, lines, workAndReply } = await podWithAll(t)
  const fields = everyField()
  for (const route of new Set(fields.map((one) => one.route))) {
    const { path, init } = plainRequest(route, knownFor(route))
    assert.ok((await ask(path, init)).ok, `${nameOf(route)} without a hostile value`)
  }
  // Apart from `type`, a part of a message may hold any fields, so its schema does not list `data`.
  const names = fields.flatMap(({ route, field }) =>
    field.endsWith('parts[].type')
      ? [
          { route, field },
          { route, field: field.replace('type', 'data') },
        ]
      : { route, field },
  )
  const cases = new Map(names.map((one) => [`${nameOf(one.route)}, ${one.field}`, one]))
  let asked = 0
  for (const [what, { route, field }] of cases)
    for (const value of valuesFor(field)) {
      const { path, init } = requestWith(route, field, value, knownFor(route))
      const { status, body } = await ask(path, init)
      assert.ok(status < 500, `${what} = ${value.slice(0, 60)}: ${status} ${body}`)
      if (status >= 400 && !(route.saysFaultsInText && /^\w/.test(body)))
        refusalSchema.parse(JSON.parse(body))
      asked += 1
    }
  assert.ok(asked > 800, `${asked} requests`)
  assert.equal(({} as { isAdmin?: boolean }).isAdmin, undefined)
  await ask('/v1/agents/own', { method: 'DELETE' }) // a hostile request may have added it with another URL
  for (const route of new Set(fields.map((one) => one.route))) {
    const { path, init } = plainRequest(route, knownFor(route))
    assert.ok((await ask(path, init)).ok, `${nameOf(route)} afterwards`)
  }
  await workAndReply()
  assert.deepEqual(
    lines.filter((line) => line.includes('"level":"error"')),
    [],
  )
})

/** A pod with a session, a turn and a held task, so that every path has a valid id. */
async function podWithAll(t: TestContext) {
  const lines: string[] = []
  const secretsKey = Buffer.alloc(32, 7).toString('base64')
  const flags = { secretsKey, tokenKeys: TOKEN_KEYS, agentHosts: '127.0.0.1' }
  const { gateway } = await podOn(t, await databaseFor(t), flags, {
    tasks: [task('work', async () => 1), task('waits', async () => hold('for a person'))],
    agents: [agent('bot', () => saying('hello'))],
    lines,
  })
  const { session } = await makeSession(gateway, { agent: 'bot', members: ['ada'] })
  const { body: sent } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text: 'hello' })
  const { body: made } = await call('POST', `${gateway}/v1/tasks`, { machine: 'waits' })
  const message = { id: 'doomed', parts: [{ type: 'text', text: 'hello' }] }
  await call('POST', `${gateway}/v1/sessions/${session}/messages`, { message, reply: false })
  const { session: doomed } = await makeSession(gateway)
  const { session: edited } = await makeSession(gateway, { agent: 'bot' })
  await call('POST', `${gateway}/v1/sessions/${edited}/messages`, { message, reply: false })
  const { session: answered } = await makeSession(gateway, { agent: 'bot' })
  await call('POST', `${gateway}/v1/sessions/${answered}/messages`, { text: 'hello' })
  const { body: erased } = await call('DELETE', `${gateway}/v1/sessions/${doomed}`)
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'bot' })
  const known: Known = {
    session,
    id: session,
    message: message.id,
    erasure: String(erased['erasure']),
    user: 'ben',
    agent: 'own',
    turn: String(sent['turn']),
    task: String(made['id']),
  }
  await eventually(
    async () =>
      assert.equal((await call('GET', `${gateway}/v1/tasks/${known['task']}`)).body['state'], 'held'),
    { what: 'a held task' },
  )
  const field = async (path: string, name: string) => (await call('GET', `${gateway}/v1/${path}`)).body[name]
  const sessions: Readonly<Record<string, string>> = {
    'DELETE /v1/sessions/:session': doomed,
    // A repeat is answered like the first request.
    'PUT /v1/sessions/:session/messages/:message': edited,
    'POST /v1/sessions/:session/regenerate': answered,
  }
  return {
    knownFor: (route: Route): Known => ({ ...known, session: sessions[nameOf(route)] ?? session }),
    lines,
    /** Starts a task, and sends a message to a new session and to the one that got hostile messages. Waits until the task and the
     *  turn that each send returned are done. */
    workAndReply: async () => {
      const { body: made } = await call('POST', `${gateway}/v1/tasks`, { machine: 'work', input: 1 })
      const { session: other } = await makeSession(gateway, { agent: 'bot' })
      const turns = await Promise.all(
        [other, session].map(async (one) => {
          const { body } = await call('POST', `${gateway}/v1/sessions/${one}/messages`, { text: 'hello' })
          return String(body['turn'])
        }),
      )
      const isDone = async () => {
        assert.equal(await field(`tasks/${String(made['id'])}`, 'state'), 'done')
        for (const turn of turns) assert.equal(await field(`turns/${turn}`, 'state'), 'done')
      }
      await eventually(isDone, { what: 'a new task and the turns of both sessions to be done' })
    },
    /** Reads the whole answer, or a stream until its first frame. */
    ask: async (path: string, init: RequestInit) => {
      const answer = await fetch(`${gateway}${path}`, { ...init, signal: AbortSignal.timeout(60_000) })
      const { status, ok } = answer
      const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') === true
      if (!isStream) return { status, ok, body: await answer.text() }
      let body = ''
      for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
        body += piece
        if (body.includes('data:')) return { status, ok, body }
      }
      return assert.fail(`${path}: the stream ended without a frame: ${body}`)
    },
  }
}
