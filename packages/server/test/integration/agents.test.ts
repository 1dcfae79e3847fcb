// Agents behind URLs: adding, listing and removing them over REST and on the command line, and how pods call them.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { verify } from '../../src/agent-kit.ts'
import { agent, type AgentCall } from '../../src/agent/agent.ts'
import { createAgents } from '../../src/agent/agents.ts'
import { AGENT_LIMITS } from '../../src/agent/directory.ts'
import { AGENTS } from '../../src/cli/agents.ts'
import { POD } from '../../src/identity/actor.ts'
import { createAudit } from '../../src/identity/audit.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { hostsOf } from '../../src/lib/hosts.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { downstream } from '../../src/throttle/definition.ts'
import { agentServer, lines, SAID, type Answer } from '../support/agent-server.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { sessionFor } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { saying, talkOn } from '../support/talk.ts'
import { typing } from '../support/terminal.ts'

const KEY = { secretsKey: Buffer.alloc(32, 7).toString('base64'), agentHosts: '127.0.0.1' }
const SECRET = 'whsec_ZmxlZXRsaW5lLWV4YW1wbGUtc2VjcmV0LTAwMDE='
const agentsOn = (gateway: string) => `${gateway}/v1/agents`

/** Opens a session with an agent behind a URL; `answer` writes the agent's responses. */
async function talkWith(t: TestContext, answer: Answer, log: string[] = []) {
  const server = await agentServer(t, answer)
  const url = await databaseFor(t)
  const { gateway, admin } = await podOn(t, url, KEY, { agents: [], lines: log })
  const added = await call('POST', agentsOn(gateway), { name: 'afar', url: server.url, secret: SECRET })
  assert.equal(added.status, 201)
  return { ...server, admin, ...(await talkOn(t, { url, gateway, agent: 'afar' })) }
}

test('S22: the log says why an agent behind a URL failed, but never in the words of the agent', async (t) => {
  const log: string[] = []
  const failing = (errorText: string) => (response: ServerResponse) =>
    lines(response, [{ type: 'error', errorText }])
  const typed = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/canary' }).end()
  let answers: ((response: ServerResponse) => unknown)[] = []
  const talk = await talkWith(t, (_, response) => answers.shift()!(response), log)
  const reasonsOf = async (...given: typeof answers) => {
    answers = given
    const before = log.length
    const { turn } = await talk.send('hi')
    assert.equal((await talk.ended(turn!)).state, 'failed')
    const failed = log.slice(before).filter((line) => line.includes('an agent failed'))
    return failed.map((line) => (JSON.parse(line) as { reason?: string }).reason)
  }
  const own = failing('fleetline:{"status":400,"code":"full"}')
  assert.deepEqual(await reasonsOf(failing('canary: my card is 4111'), own), [undefined, 'full 400'])
  assert.deepEqual(await reasonsOf((response) => lines(response, [{ type: 'canary' }])), [undefined])
  assert.deepEqual(await reasonsOf(typed), [undefined])
  const [refused] = await reasonsOf((response) => response.writeHead(401).end())
  assert.match(refused!, /^The agent answered with status 401/)
  assert.ok(!log.join().includes('canary'))
})

test('an agent behind a URL is changed in place: the next call goes to its new URL, with its new secret and window', async (t) => {
  const talk = await talkWith(t, (_, response) => lines(response, SAID))
  const server = await agentServer(t, (_, response) => lines(response, SAID))
  const at = `${agentsOn(talk.gateway)}/afar`
  for (const text of ['one', 'two', 'three']) await talk.send(text, { reply: false })
  const secret = 'whsec_ZmxlZXRsaW5lLWV4YW1wbGUtc2VjcmV0LTAwMDI='
  const change = { url: server.url, secret, window: { messages: 2 } }
  const { status, body } = await call('PATCH', at, change)
  assert.deepEqual(
    [status, body['url'], body['window']],
    [200, server.url, { messages: 2, bytes: 2_097_152 }],
  )
  assert.ok(!JSON.stringify(body).includes('whsec_'))
  const again = await call('POST', agentsOn(talk.gateway), { name: 'afar', ...change })
  assert.deepEqual([again.status, again.body['window']], [200, body['window']], 'it is that agent now')
  const { turn } = await talk.send('four')
  assert.equal((await talk.ended(turn!)).state, 'done')
  const [{ headers, body: bytes } = assert.fail('no call')] = server.received
  const request = new Request(server.url, {
    method: 'POST',
    headers: headers as Record<string, string>,
    body: new Uint8Array(bytes),
  })
  const sent = await verify(request, secret)
  assert.deepEqual(
    sent.messages.map(({ parts }) => parts[0]!['text']),
    ['three', 'four'],
  )

  for (const [sentBody, expected, text] of [
    [{}, 400, /changes nothing/],
    [{ window: { messages: 0 } }, 400, /window.messages must be a whole number from 1 to 500/],
    [{ window: { bytes: 1 } }, 400, /window.bytes/],
    [{ url: 'http://10.0.0.1/' }, 400, /not public/],
    [{ downstream: 'openai/gpt' }, 400, /not open to agents/],
  ] as const) {
    const refused = await call('PATCH', at, sentBody)
    assert.equal(refused.status, expected)
    assert.match(JSON.stringify(refused.body), text)
  }
  assert.equal((await call('PATCH', `${at}-away`, { window: { messages: 1 } })).status, 404)
})

test('E4: a window of one message keeps every message that asks for the reply', async (t) => {
  const [calls, first]: [AgentCall[], PromiseWithResolvers<void>] = [[], Promise.withResolvers<void>()]
  const short = agent(
    'short',
    async function* (asked) {
      calls.push(asked)
      if (calls.length === 1) await first.promise
      yield* saying('a reply')
    },
    { window: { messages: 1, bytes: 1_024 } },
  )
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, {}, { agents: [short] })
  const talk = await talkOn(t, { url, gateway, agent: 'short' })
  const { turn } = await talk.send('one')
  await eventually(() => assert.equal(calls.length, 1), { what: 'the first call' })
  for (const text of ['two '.repeat(500), 'three']) await talk.send(text)
  first.resolve()
  await talk.ended(turn!)
  await eventually(async () => assert.equal((await talk.items()).length, 5), { what: 'the second reply' })
  const textsOf = ({ messages }: AgentCall) =>
    messages.map(({ parts }) => (parts[0]!['text'] as string).slice(0, 5))
  assert.deepEqual(calls.map(textsOf), [['one'], ['a rep', 'two t', 'three']])
  await talk.ended((await talk.send('four')).turn!)
  assert.deepEqual(textsOf(calls[2]!), ['four'])
})

test('E4: if more messages ask than one call carries, the next turn answers the others', async (t) => {
  const [calls, first]: [AgentCall[], PromiseWithResolvers<void>] = [[], Promise.withResolvers<void>()]
  const busy = agent('busy', async function* (asked) {
    calls.push(asked)
    if (calls.length === 1) await first.promise
    yield* saying('a reply')
  })
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, {}, { agents: [busy] })
  const talk = await talkOn(t, { url, gateway, agent: 'busy' })
  await talk.send('one')
  await eventually(() => assert.equal(calls.length, 1), { what: 'the first call' })
  const long = 'x'.repeat(200_000)
  await Promise.all(Array.from({ length: 12 }, () => talk.send(long)))
  await Promise.all(Array.from({ length: 510 }, () => talk.send('short')))
  first.resolve()
  await eventually(async () => assert.equal((await talk.get()).state, 'idle'), { what: 'all replies' })
  const answers = calls.map(({ turn }) => turn.answers)
  assert.deepEqual(
    answers.map(({ from }) => from),
    [1, ...answers.slice(0, -1).map(({ to }) => to + 1)],
  )
  assert.ok(answers.length >= 4 && answers.at(-1)!.to >= 523, JSON.stringify(answers))
  for (const { messages, turn } of calls.slice(1)) {
    const asked = messages.slice(-(turn.answers.to - turn.answers.from + 1))
    assert.ok(Buffer.byteLength(JSON.stringify(asked)) < 2_200_000 && asked.length <= 501)
  }
})

test('an agent can be added, listed and removed; its secret is shown once and not stored in plain text', async (t) => {
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, { ...KEY, demoAgent: 'yes' })
  const wanted = { name: 'afar', url: 'http://127.0.0.1:1/api/chat' }
  const { status, body } = await call('POST', agentsOn(gateway), wanted)
  const { secret, createdAt, ...shown } = body
  const downstream = 'agent/1/afar'
  const settings = {
    protocol: 'ai-sdk',
    window: { messages: 500, bytes: 2_097_152 },
    compaction: { enabled: false, tokenBudget: 50_000, triggerRatio: 0.7, url: null },
  }
  assert.equal(status, 201)
  assert.deepEqual(shown, { ...wanted, downstream, ...settings })
  assert.match(String(secret), /^whsec_[A-Za-z0-9+/]{43}=$/)
  const entry = { ...wanted, downstream, ...settings, createdAt }
  assert.deepEqual(await call('POST', agentsOn(gateway), wanted), { status: 200, body: entry })
  assert.deepEqual(await call('POST', agentsOn(gateway), { ...wanted, secret }), { status: 200, body: entry })
  assert.deepEqual((await call('GET', agentsOn(gateway))).body, { agents: [entry] })
  assert.deepEqual((await call('GET', `${agentsOn(gateway)}/afar`)).body, entry)
  const database = await openDatabase(t, url)
  const rows = await database.transaction((query) =>
    query(`select encode(secret, 'escape') as text from fleetline.agents`),
  )
  assert.ok(rows.type === 'committed', rows.type)
  assert.equal(rows.value.length, 1)
  assert.doesNotMatch(JSON.stringify(rows.value), /whsec/)
  assert.deepEqual(await call('DELETE', `${agentsOn(gateway)}/afar`), {
    status: 200,
    body: { agent: 'afar' },
  })
  assert.equal((await call('DELETE', `${agentsOn(gateway)}/afar`)).status, 404)
  assert.deepEqual((await call('GET', agentsOn(gateway))).body, { agents: [] })
})

test('adding an agent is rejected for invalid values, a taken name, too many agents or a pod without a key', async (t) => {
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, { ...KEY, demoAgent: 'yes' })
  const wanted = { name: 'afar', url: 'https://agent.example/chat' }
  assert.equal((await call('POST', agentsOn(gateway), wanted)).status, 201)
  const cases = [
    [{ ...wanted, url: 'https://agent.example/other' }, 'conflict'],
    [{ ...wanted, secret: SECRET }, 'conflict'],
    [{ ...wanted, name: 'demo' }, 'conflict'],
    [{ ...wanted, name: 'a b' }, 'invalid'],
    [{ ...wanted, name: 'b', secret: 'hunter2' }, 'invalid'],
    ...[
      'ftp://agent.example/',
      'agent.example',
      'http://ada:pw@agent.example/',
      'https://169.254.169.254/latest/meta-data/',
      'http://[::1]:4401/metrics',
      `https://agent.example/${'x'.repeat(2_048)}`,
    ].map((bad) => [{ name: 'b', url: bad }, 'invalid'] as const),
  ] as const
  for (const [body, code] of cases) {
    const answer = await call('POST', agentsOn(gateway), body)
    assert.equal((answer.body['error'] as { code: string }).code, code, JSON.stringify(body))
  }
  const database = await openDatabase(t, url)
  const fill = `insert into fleetline.agents (tenant, name, url, secret)
    select 1, 'n' || n, '', '' from generate_series(1, ${AGENT_LIMITS.agents - 1}) n`
  await database.transaction((query) => query(fill))
  const full = await call('POST', agentsOn(gateway), { ...wanted, name: 'b' })
  assert.equal((full.body['error'] as { code: string }).code, 'too_many')
  const bare = await podOn(t, url)
  const refused = await call('POST', agentsOn(bare.gateway), { ...wanted, name: 'b' })
  assert.equal(refused.status, 400)
  assert.match(JSON.stringify(refused.body), /FLEETLINE_SECRETS_KEY/)
})

test('S3: an agent of another tenant is answered like one that does not exist', async (t) => {
  const url = await databaseFor(t)
  const { gateway } = await podOn(t, url, KEY)
  const database = await openDatabase(t, url)
  const { tenant } = await sessionFor(database, 'other')
  await call('POST', agentsOn(gateway), { name: 'theirs', url: 'http://127.0.0.1:1/' })
  await database.transaction((query) => query('update fleetline.agents set tenant = $1', [tenant]))
  for (const method of ['GET', 'DELETE']) {
    const [foreign, absent] = await Promise.all(
      ['theirs', 'nobodys'].map((name) => call(method, `${agentsOn(gateway)}/${name}`)),
    )
    const anonymous = ({ status, body }: NonNullable<typeof foreign>) =>
      JSON.stringify([status, body]).replace(/req_[\w-]+/, 'req')
    assert.equal(anonymous(foreign!), anonymous(absent!))
  }
  assert.deepEqual((await call('GET', agentsOn(gateway))).body, { agents: [] })
  assert.equal((await call('POST', `${gateway}/v1/sessions`, { agent: 'theirs' })).status, 400)
})

test('agents add, set, ls and rm print JSON or tab-separated lines, and report failures', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), KEY)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-agents-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const secretFile = join(folder, 'secret')
  writeFileSync(secretFile, `${SECRET}\n`)
  const type = typing(AGENTS, 'agents')
  const words = ['afar', 'https://agent.example/chat']
  const added = await type({ url, json: true }, 'add', words, { secretFile })
  const { createdAt, ...shown } = JSON.parse(added.out) as Record<string, string>
  const [downstream, window] = ['agent/1/afar', { messages: 500, bytes: 2_097_152 }]
  const compaction = { enabled: false, tokenBudget: 50_000, triggerRatio: 0.7, url: null }
  const protocol = 'ai-sdk'
  assert.deepEqual(shown, {
    name: words[0],
    url: words[1],
    downstream,
    protocol,
    window,
    compaction,
    secret: SECRET,
  })
  assert.equal(
    (await type({ url }, 'ls')).out,
    `${words.join('\t')}\t${downstream}\t${createdAt}\t${protocol}\n`,
  )
  const set = await type({ url, json: true }, 'set', ['afar'], { messages: '20', downstream: false })
  assert.deepEqual((JSON.parse(set.out) as { window: unknown }).window, { ...window, messages: 20 })
  assert.match((await type({ url }, 'set', ['afar'], { messages: '0' })).err, /--messages must be/)
  assert.match((await type({ url }, 'set', ['afar'], { protocol: 'agui' })).err, /--protocol must be one of/)
  const spoken = await type({ url, json: true }, 'set', ['afar'], { protocol: 'ag-ui' })
  assert.equal((JSON.parse(spoken.out) as { protocol: unknown }).protocol, 'ag-ui')
  await type({ url }, 'set', ['afar'], { protocol: 'ai-sdk' })
  const setAll = async (options: Record<string, string | boolean>) => {
    const { out } = await type({ url, json: true }, 'set', ['afar'], options)
    return (JSON.parse(out) as { compaction: unknown }).compaction
  }
  const summaryUrl = 'https://agent.example/summary'
  const long = { compaction: true, tokenBudget: '2000', triggerRatio: '0.5', summaryUrl }
  const summarised = { enabled: true, tokenBudget: 2_000, triggerRatio: 0.5, url: summaryUrl }
  assert.deepEqual(await setAll(long), summarised)
  assert.deepEqual(await setAll({ compaction: false, summaryUrl: false }), {
    ...summarised,
    enabled: false,
    url: null,
  })
  for (const triggerRatio of ['x', '', '2'])
    assert.match(
      (await type({ url }, 'set', ['afar'], { triggerRatio })).err,
      /--trigger-ratio must be a number from 0\.1 to 1/,
    )
  assert.match(
    (await type({ url }, 'set', ['afar'], { summaryUrl: 'ftp://agent.example/' })).err,
    /compaction\.url: must begin with http/,
  )
  assert.equal((await type({ url }, 'rm', ['afar'])).out, 'agent\tafar\n')
  assert.equal((await type({ url }, 'ls')).out, '')
  assert.equal((await type({ url }, 'rm', ['afar'])).code, 3)
  assert.match(
    (await type({ url }, 'add', words, { secretFile: join(folder, 'none') })).err,
    /cannot be read/,
  )
})

test('S11: an agent is called by a signed POST with the AI SDK’s fields and more; its chunks become the reply', async (t) => {
  const talk = await talkWith(t, (_, response) => lines(response))
  const ack = await talk.send('hi', { author: 'ada' })
  const { state, attempt } = await talk.ended(ack.turn!)
  assert.deepEqual({ state, attempt }, { state: 'done', attempt: 1 })
  const reply = (await talk.items()).at(-1)!
  assert.equal(reply.parts[0]!['text'], 'hello from afar')
  assert.deepEqual(reply.author, { kind: 'agent', id: 'afar' })
  const [{ headers, body, path }] = talk.received as [(typeof talk.received)[number]]
  assert.equal(path, '/api/chat?x=1')
  const request = new Request('http://agent/', {
    method: 'POST',
    headers: headers as Record<string, string>,
    body,
  })
  const sent = await verify(request, SECRET)
  assert.equal(sent.id, talk.session)
  assert.equal(sent.trigger, 'submit-message')
  assert.deepEqual(
    sent.messages.map(({ role, parts }) => ({ role, text: parts[0]!['text'] })),
    [{ role: 'user', text: 'hi' }],
  )
  assert.deepEqual(Object.keys(sent).toSorted(), [
    'agent',
    'id',
    'messages',
    'session',
    'trigger',
    'turn',
    'user',
  ])
  const expected = {
    'webhook-id': ack.turn,
    'idempotency-key': ack.turn,
    'x-fleetline-attempt': '1',
    'x-fleetline-epoch': '1',
    'content-type': 'application/json',
    'accept-encoding': 'identity',
  }
  const received = Object.fromEntries(Object.keys(expected).map((name) => [name, headers[name]]))
  assert.deepEqual(received, expected)
  assert.match(String(headers['user-agent']), /^fleetline\/\d/)
  const deadlineMs = Number(headers['x-fleetline-deadline-ms'])
  assert.ok(deadlineMs <= 900_000, `${deadlineMs} ms`)
})

function breakOff(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(`: open\n\ndata: ${JSON.stringify(SAID[0])}\n\n`, () => response.destroy())
}

test('a turn is retried under one key: a 503 and a broken stream count as attempts, a 429 does not', async (t) => {
  const answers: Answer[] = [
    (_, response) => response.writeHead(503).end(),
    (_, response) => response.writeHead(429).end(),
    (_, response) => breakOff(response),
    (_, response) => breakOff(response.setHeader('connection', 'close')),
    (_, response) => lines(response),
  ]
  const talk = await talkWith(t, (received, response) => answers.shift()!(received, response))
  const ack = await talk.send('hi')
  const { state, attempt: claims } = await talk.ended(ack.turn!)
  assert.deepEqual({ state, claims }, { state: 'done', claims: 5 })
  assert.deepEqual(
    talk.received.map(({ headers }) => ({
      key: headers['idempotency-key'],
      attempt: headers['x-fleetline-attempt'],
    })),
    ['1', '2', '2', '3', '4'].map((attempt) => ({ key: ack.turn, attempt })),
  )
  assert.equal((await talk.items()).length, 2)
  const metrics = await (await fetch(`${talk.admin}/metrics`)).text()
  for (const [outcome, count] of [
    ['agent_error', 1],
    ['later', 1],
    ['incomplete', 2],
    ['answered', 1],
  ] as const)
    assert.match(metrics, new RegExp(`fleetline_agent_calls_total\\{outcome="${outcome}"\\} ${count}`))
})

test('T3: all turns of an agent wait for its Retry-After and say why, for about ten minutes at most', async (t) => {
  const talk = await talkWith(t, (_, response) => response.writeHead(503, { 'retry-after': '3600' }).end())
  const waiting = async () => {
    const ack = await talk.send('hi')
    return eventually(
      async () => {
        const turn = await talk.turn(ack.turn!)
        assert.notEqual(turn.retryAt, null)
        return turn
      },
      { what: 'the turn to wait' },
    )
  }
  const first = await waiting()
  await call('POST', `${talk.gateway}/v1/sessions/${talk.session}/stop`, {
    turn: first.id,
    epoch: first.epoch,
  })
  const second = await waiting()
  assert.equal(first.waitsFor, 'agent_error')
  assert.equal(second.waitsFor, 'rate_limited')
  for (const { retryAt } of [first, second]) {
    const ms = Date.parse(retryAt!) - Date.now()
    // Ten minutes, up to a tenth longer, and up to 30 s after a call that was rejected before. A slow test sees less time left.
    assert.ok(ms > 300_000 && ms <= 690_000, `${ms} ms`)
  }
  assert.equal(talk.received.length, 1)
})

test('S37: an agent may use a downstream that code has opened to agents, or one of its own tenant, and no other', async (t) => {
  const url = await databaseFor(t)
  const inside = agent('inside', () => saying('x'), { downstream: 'openai/gpt' })
  const downstreams = [
    downstream('bedrock/claude', { openToAgents: true }),
    downstream('crm', { maxPerPod: 50 }),
  ]
  const { pod, gateway } = await podOn(t, url, KEY, { agents: [inside], downstreams })
  pod.downstream('mistral', { openToAgents: true })
  const add = (name: string, key: string) =>
    call('POST', agentsOn(gateway), { name, url: 'http://127.0.0.1:1/', downstream: key })
  for (const key of ['bedrock/claude', 'mistral', 'agent/1/both']) {
    const name = key.replaceAll('/', '-')
    const { status, body } = await add(name, key)
    assert.deepEqual({ status, downstream: body['downstream'] }, { status: 201, downstream: key })
    assert.equal((await add(name, key)).status, 200, `${key}: the same agent again`)
    assert.equal((await add(name, 'agent/1/other')).status, 409)
  }
  const refused = [
    'agent/2/afar',
    'agent/11/afar',
    'agent/1/',
    'agent/1/a\0',
    'openai/gpt',
    'crm',
    'nobodys',
    '',
  ]
  for (const key of refused) {
    const { status, body } = await add('refused', key)
    assert.equal(status, 400, key)
    assert.match(JSON.stringify(body), /is not open to agents/)
  }
})

test('S37: code cannot define a downstream under the key of an agent', () => {
  assert.throws(() => downstream('agent/1/afar'), /stand for agents/)
})

test('S37: when a downstream is closed to agents again, its agents go back to downstreams of their own', async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  const [clock, random] = [systemClock(), systemRandom()]
  let isOpened = true
  const agents = createAgents({
    database,
    audit: createAudit({ database, metrics: createMetrics() }),
    clock,
    random,
    defined: new Map(),
    secretsKey: Buffer.alloc(32, 7),
    version: '0',
    agentHosts: hostsOf('127.0.0.1')!,
    isOpen: () => isOpened,
  })
  await agents.add(1, { name: 'afar', url: 'http://127.0.0.1:1/', downstream: 'bedrock' }, POD)
  const keyOf = async () => (await agents.agentFor(1, 'afar'))!.downstream
  assert.equal(await keyOf(), 'bedrock')
  isOpened = false
  assert.equal(await keyOf(), 'agent/1/afar')
})

test('a turn fails without a retry after an answer that a retry cannot change, such as a redirect or a 401', async (t) => {
  const ends = [
    [302, { location: '/elsewhere' }, 'agent_refused'],
    [401, {}, 'agent_refused'],
    [201, {}, 'agent_refused'],
    [200, { 'content-type': 'text/html' }, 'agent_protocol'],
    [200, { 'content-type': 'application/x-ndjson', 'content-encoding': 'gzip' }, 'agent_protocol'],
    [200, { 'content-type': 'text/event-stream', 'x-long': 'x'.repeat(20_000) }, 'too_large'],
  ] as const
  let end: (typeof ends)[number] = ends[0]
  const talk = await talkWith(t, (_, response) => response.writeHead(end[0], end[1]).end('x'))
  for (end of ends) {
    const { state, error, attempt } = await talk.ended((await talk.send('hi')).turn!)
    assert.deepEqual(
      { state, code: error!.code, attempt },
      { state: 'failed', code: end[2], attempt: 1 },
      JSON.stringify(end),
    )
  }
  assert.equal(talk.received.length, ends.length)
  const metrics = await (await fetch(`${talk.admin}/metrics`)).text()
  assert.match(metrics, /fleetline_agent_calls_total\{outcome="agent_refused"\} 3/)
  for (const { path } of talk.received) assert.equal(path, '/api/chat?x=1')
})

test('an agent may answer with JSON, a 204 or tool calls; what it said before a failure is kept', async (t) => {
  const json =
    (value: object, more = {}) =>
    (response: ServerResponse) =>
      response
        .writeHead(200, { 'content-type': 'application/json; charset=utf-8', ...more })
        .end(JSON.stringify(value))
  const call = { toolCallId: 'c', toolName: 'weather' }
  const part = {
    type: 'tool-weather',
    toolCallId: 'c',
    state: 'output-available',
    input: { a: 1 },
    output: 'sun',
  }
  const failing = (errorText: string) => [
    ...SAID.slice(0, 3),
    { type: 'tool-input-available', ...call, input: 1 },
    { type: 'error', errorText },
  ]
  const ends: readonly (readonly [
    answer: (response: ServerResponse) => unknown,
    state: string,
    said?: object,
  ])[] = [
    [
      json({ text: 'plain' }, { 'content-encoding': 'None' }),
      'done',
      { parts: [{ type: 'text', text: 'plain', state: 'done' }] },
    ],
    [
      json({ id: 'x', role: 'assistant', parts: [part], metadata: { n: 1 } }),
      'done',
      { parts: [part], metadata: { n: 1 } },
    ],
    [(response) => response.writeHead(204).end(), 'done'],
    [json({ error: 'no' }), 'failed agent_protocol'],
    [json({ role: 'user', parts: [part] }), 'failed agent_protocol'],
    [json({ role: 'assistant', parts: [{ type: 'nonsense' }] }), 'failed agent_protocol'],
    [
      (response) =>
        lines(response, [
          { type: 'tool-input-start', ...call },
          { type: 'tool-input-delta', toolCallId: 'c', inputTextDelta: '{"a":1}' },
          { type: 'tool-output-available', toolCallId: 'c', output: 'sun' },
          { type: 'finish' },
          { type: 'behind it' },
        ]),
      'done',
      { parts: [part] },
    ],
    [
      (response) => lines(response, failing('fleetline:{"status":400,"code":"of our own"}')),
      'failed agent_error',
      {
        status: 'failed',
        parts: [
          { type: 'text', text: 'hello from afar', state: 'done' },
          { type: 'tool-weather', toolCallId: 'c', state: 'output-error', input: 1, errorText: 'stopped' },
        ],
      },
    ],
  ]
  let answer = ends[0]![0]
  const talk = await talkWith(t, (_, response) => answer(response))
  for (const [how, state, said] of ends) {
    answer = how
    const ack = await talk.send('hi')
    const { error, ...turn } = await talk.ended(ack.turn!)
    assert.equal(error ? `${turn.state} ${error.code}` : turn.state, state)
    assert.doesNotMatch(error?.message ?? '', /of our own/)
    const reply = (await talk.items()).find(({ turn: id }) => id === ack.turn)
    const { parts, metadata, status } = reply ?? {}
    assert.deepEqual(reply && JSON.parse(JSON.stringify({ parts, metadata, status })), said)
  }
  assert.equal(talk.received.length, ends.length)
  const metrics = await (await fetch(`${talk.admin}/metrics`)).text()
  assert.match(metrics, /fleetline_agent_chunks_ignored_total 1\n/)
})

test('E8: a stop closes the agent’s connection; a turn whose agent is removed, unreachable or blocked says so', async (t) => {
  let isClosed = false
  const talk = await talkWith(t, (_, response) => {
    response.once('close', () => (isClosed = true))
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    response.write(
      SAID.slice(0, 3)
        .map((chunk) => `${JSON.stringify(chunk)}\n`)
        .join(''),
    )
  })
  const { turn, epoch } = await talk.send('hi')
  const said = () => talk.run('select from fleetline.chunks')
  await eventually(async () => assert.notEqual((await said()).length, 0), { what: 'stored chunks' })
  const stopped = await call('POST', `${talk.gateway}/v1/sessions/${talk.session}/stop`, { turn, epoch })
  assert.equal(stopped.body['stopped'], true)
  await eventually(() => assert.ok(isClosed), { what: 'the end of the connection' })
  await eventually(async () => assert.equal((await talk.turn(turn!)).halted, true), { what: 'the halt' })
  assert.equal((await talk.items()).at(-1)!.parts[0]!['text'], 'hello from afar')

  await call('DELETE', `${agentsOn(talk.gateway)}/afar`)
  const { turn: left } = await talk.send('hi')
  await eventually(async () => assert.equal((await talk.turn(left!)).waitsFor, 'agent_unknown'), {
    what: 'the turn to wait for its agent',
  })
  await call('POST', agentsOn(talk.gateway), { name: 'afar', url: 'http://127.0.0.1:1/' })
  const { error } = await talk.ended(left!)
  assert.equal(error!.code, 'unreachable')
  assert.doesNotMatch(error!.message, /127/, 'the message names no address')

  await talk.run(`update fleetline.agents set url = 'http://127.0.0.2:1/'`) // as if added while more hosts were allowed
  const { error: blocked, attempt } = await talk.ended((await talk.send('hi')).turn!)
  assert.deepEqual({ code: blocked!.code, attempt }, { code: 'agent_blocked', attempt: 1 })
})

test('a pod whose key cannot decrypt an agent’s secret says so and does not call the agent, until it has a new secret', async (t) => {
  const server = await agentServer(t, (_, response) => lines(response))
  const url = await databaseFor(t)
  const first = await podOn(t, url, KEY)
  await call('POST', agentsOn(first.gateway), { name: 'afar', url: server.url })
  const other = { ...KEY, secretsKey: Buffer.alloc(32, 8).toString('base64') }
  const { gateway } = await podOn(t, url, other, { agents: [] })
  const talk = await talkOn(t, { url, gateway, agent: 'afar' })
  const { error } = await talk.ended((await talk.send('hi')).turn!)
  assert.equal(error!.code, 'agent_unopened')
  assert.match(error!.message, /or run fleetline agents set afar --secret-file FILE/)
  assert.equal(server.received.length, 0)
  await call('PATCH', `${agentsOn(gateway)}/afar`, { secret: SECRET })
  assert.equal((await talk.ended((await talk.send('hi')).turn!)).error, null)
  assert.equal(server.received.length, 1)
})
