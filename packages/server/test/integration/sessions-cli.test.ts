// What `fleetline sessions …` prints, to which stream, and the exit code of each kind of failure. Commands run in this process.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Ack, Item, Page, Session, Turn } from '@fleetline/protocol'
import { agent } from '../../src/agent/agent.ts'
import { SESSIONS } from '../../src/cli/sessions.ts'
import { Abort } from '../../src/errors.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { typing } from '../support/terminal.ts'

const type = typing(SESSIONS, 'sessions')

const waiting = Promise.withResolvers<void>()
/** Repeats the last message and adds ` there`. For `wait` it waits first, for `fail` it fails, for `quiet` it says nothing. */
const mimic = agent('mimic', async function* ({ messages }) {
  const text = messages.at(-1)!.parts[0]!['text'] as string
  if (text === 'wait') await waiting.promise
  if (text === 'fail') throw new Abort('internal', 'refused')
  yield { type: 'start' }
  if (text !== 'quiet') {
    yield { type: 'text-start', id: '1' }
    for (const delta of [text, ' there']) yield { type: 'text-delta', id: '1', delta }
    yield { type: 'text-end', id: '1' }
  }
  yield { type: 'finish' }
})

test('commands print data to stdout as a table, tabs or JSON, and failures to stderr with an exit code', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t))
  const json = { url, json: true }
  const made = JSON.parse((await type(json, 'create', [], { alias: 'rome', title: 'Trip to Rome' })).out) as {
    session: string
    updatedAt: string
  }
  const { session, updatedAt } = made
  assert.equal((await type({ url }, 'ls')).out, `${session}\trome\tTrip to Rome\t0\t${updatedAt}\n`)
  assert.match(
    (await type({ url, isTTY: true }, 'ls')).out,
    /^SESSION +ALIAS +TITLE +HEAD +UPDATEDAT\nses_\w+  rome +Trip to Rome/,
  )
  assert.deepEqual(JSON.parse((await type(json, 'get', ['rome'])).out), made)
  assert.match((await type({ url }, 'send', [session, 'hi'], { id: 'm-1' })).out, /^id\tm-1\nseq\t1\n/)

  const change = async (verb: string, options: object = {}) =>
    JSON.parse((await type(json, verb, ['rome'], { ...options })).out) as Session
  assert.equal((await change('set', { title: 'Rome', metadata: '{"project":1}' })).title, 'Rome')
  const untitled = await change('set', { title: false })
  assert.deepEqual([untitled.title, untitled.metadata], [null, { project: 1 }])
  assert.equal((await change('set', { metadata: false })).metadata, null)
  assert.equal((await change('archive')).archived, true)
  assert.equal((await change('unarchive')).archived, false)

  const absent = session.replace(/.{6}$/, '000000')
  const failures = [
    [
      await type({ url }, 'get', [absent]),
      3,
      /no such session.*Check the id and the tenant\. \(GET \/v1\/sessions\/ses_\w+, req_/,
    ],
    [
      await type({ url }, 'send', [session, 'other'], { id: 'm-1' }),
      4,
      /The id m-1 is taken by another message, at seq 1/,
    ],
    [await type({ url }, 'send', [session, 'hi'], { ifHead: '' }), 2, /--if-head must be a whole number/],
    [await type({ url }, 'set', ['rome']), 2, /nothing to change: use --title or --metadata/],
    [await type({ url }, 'set', ['rome'], { metadata: '{x' }), 2, /--metadata is not valid JSON/],
    [await type({ url }, 'set', ['rome'], { metadata: '[1]' }), 2, /body\.metadata: must be an object/],
    [await type({ url }, 'set', ['rome'], { title: '' }), 2, /To remove the title, use --no-title/],
    [await type({ url }, 'get', ['..']), 2, /"\.\." cannot be an id or a name here/],
    [await type({ url }, 'get', ['paris']), 3, /its alias is free: use the id\./],
    [await type({ url }, 'ls', [], { limit: '0' }), 2, /query.limit: must be from 1 to 100/],
    [
      await type({ url: 'http://127.0.0.1:1' }, 'tail', [session]),
      5,
      /no answer from http:.*running there\?/,
    ],
    [
      await type({ url: 'http://127.0.0.1:1' }, 'send', [session, 'x']),
      5,
      /again with --id [0-9a-f]{32}; it is/,
    ],
    [await type(json, 'tail', [absent]), 3, /^\{"error":\{"code":"not_found"/],
  ] as const
  for (const [{ code, out, err }, expected, text] of failures) {
    assert.match(err, text)
    assert.equal(code, expected, `exit code ${code}: ${err}`)
    assert.equal(out, '')
  }
})

test('a bad gateway or a broken answer exits with 5, so that you can send again', async (t) => {
  const answers: Record<string, (response: ServerResponse) => void> = {
    bad: (response) =>
      void response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad Gateway</h1>'),
    cut: (response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{"id":')
      response.socket!.end()
    },
    odd: (response) => void response.writeHead(418).end('a teapot'),
  }
  const server = createServer(({ url }, response) => answers[url!.split('/')[3]!]!(response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const send = (session: string) => type({ url }, 'send', [session, 'hi'], { id: 'm-1' })
  const [bad, cut, odd] = [await send('bad'), await send('cut'), await send('odd')]
  assert.equal(bad.code, 5)
  assert.match(bad.err, /502, not by Fleetline.*Send it again with --id m-1/)
  assert.equal(cut.code, 5)
  assert.match(cut.err, /broke off.*Send it again with --id m-1/)
  assert.equal(odd.code, 1)
  assert.match(odd.err, /418, not by Fleetline/)
})

test('erase resolves an alias once, and if the answer is lost, it names the id for a repeat', async (t) => {
  const asked: string[] = []
  const id = 'ses_0000019a9d9eeb0070008000000000000001'
  const session = {
    session: id,
    alias: 'trip',
    title: null,
    metadata: null,
    archived: false,
    head: 0,
    agent: null,
  }
  const idle = { epoch: 0, state: 'idle', turn: null, createdAt: '2026-11-19T10:00:00.000Z' }
  const server = createServer(({ method, url }, response) => {
    asked.push(`${method} ${url}`)
    if (method === 'DELETE') return void response.socket!.destroy()
    if (url!.endsWith('/mine')) return void response.writeHead(403).end(JSON.stringify(FORBIDDEN))
    response.end(JSON.stringify({ ...session, ...idle, updatedAt: idle.createdAt }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const erase = (name: string, options = {}) => type({ url }, 'erase', [name], { yes: true, ...options })
  for (const { code, err } of [await erase('trip'), await erase(id, { message: 'm-1' })]) {
    assert.equal(code, 5)
    assert.ok(err.includes(`To repeat the erasure, use the id of the session: ${id}`), err)
  }
  assert.match((await erase('mine')).err, /make sure that the alias mine still names this session/)
  const [byId, byAlias] = [`/v1/sessions/${id}`, '/v1/sessions/trip']
  assert.deepEqual(asked, [
    `GET ${byAlias}`,
    `DELETE ${byId}`,
    `DELETE ${byId}/messages/m-1`,
    'GET /v1/sessions/mine',
    'DELETE /v1/sessions/mine',
  ])
})

const FORBIDDEN = {
  error: { code: 'forbidden', text: 'The key may not read sessions.', retryable: false, requestId: 'req_1' },
}

test('a send to an agent prints only its reply on stdout, and its exit code says how the turn ended', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), {}, { agents: [mimic] })
  await type({ url }, 'create', [], { alias: 'chat', agent: 'mimic' })
  const send = (text: string, options = {}) => type({ url }, 'send', ['chat', text], options)
  const hello = await send('hello', { id: 'm-1' })
  assert.equal(hello.code, 0)
  assert.equal(hello.out, 'hello there\n')
  assert.match(
    hello.err,
    /^Stored at seq 1\.\n(turn_\w+ is queued\n)?(turn_\w+ is running on \S+ \(attempt 1\)\n)?$/,
  )
  const again = await send('hello', { id: 'm-1' })
  assert.deepEqual(again, { code: 0, out: 'hello there\n', err: 'Stored at seq 1.\n' })

  const { out } = await type({ url, json: true }, 'send', ['chat', 'bye'])
  const [ack, item] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Item & Ack)
  assert.equal(ack!.seq, 3)
  assert.equal(item!.answers, 3)
  assert.equal(item!.turn, ack!.turn)
  assert.equal(item!.parts[0]!['text'], 'bye there')

  const steered = await send('\u001B[2Jboo')
  assert.equal(steered.code, 0)
  assert.equal(steered.out, '[2Jboo there\n')
  const failed = await send('fail')
  assert.equal(failed.code, 1)
  assert.equal(failed.out, '')
  assert.match(failed.err, /turn_\w+ failed: .*refused.*next one\.\n$/)
  const failing = await send('fail', { id: 'm-7' })
  assert.equal(failing.code, 1)
  const repeated = await send('fail', { id: 'm-7' })
  assert.equal(repeated.code, 1)
  const quiet = await send('quiet')
  assert.equal(quiet.code, 0)
  assert.equal(quiet.out, '')
  assert.match(quiet.err, /The agent did not reply\.\n$/)
  const unasked = await send('psst', { reply: false })
  assert.match(unasked.out, /^id\t\w+\nseq\t10\ndeduped\tfalse\n$/)
  assert.match((await send('later', { wait: false })).out, /^id\t\w+\nseq\t11\ndeduped\tfalse\nturn\tturn_/)
})

test('stop ends the live turn and the send that waits for it, and says so if no turn is live', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), {}, { agents: [mimic] })
  await type({ url }, 'create', [], { alias: 'chat', agent: 'mimic' })
  const sent = type({ url }, 'send', ['chat', 'wait'], { id: 'm-1' })
  const isLive = async () =>
    assert.equal(((await call('GET', `${url}/v1/sessions/chat`)).body as unknown as Session).state, 'working')
  await eventually(isLive, { what: 'the turn' })
  const stopped = await type({ url }, 'stop', ['chat'])
  assert.equal(stopped.code, 0)
  assert.equal(stopped.err, '')
  assert.match(stopped.out, /^stopped\ttrue\nseq\tnull\nturn\tturn_\w+\n$/)
  const { code, out, err } = await sent
  assert.equal(code, 1)
  assert.equal(out, '')
  assert.match(err, /The reply was stopped\. Nothing of the reply is stored\. The message is stored/)
  const repeated = await type({ url }, 'send', ['chat', 'wait'], { id: 'm-1' })
  assert.equal(repeated.code, 1)
  assert.match(repeated.err, /its turn failed or was stopped/)
  const idle = await type({ url, json: true }, 'stop', ['chat'])
  assert.equal(idle.code, 0)
  assert.deepEqual(JSON.parse(idle.out), { stopped: false, seq: null, turn: null })
  assert.match((await type({ url }, 'stop', ['chat'])).err, /nothing to stop/)
})

test('E10: regenerate and edit print what they have started, and what they replace stays in the log', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), {}, { agents: [mimic] })
  await type({ url }, 'create', [], { alias: 'chat', agent: 'mimic' })
  await type({ url }, 'send', ['chat', 'Rom?'], { id: 'typo' })
  const edited = await type({ url }, 'edit', ['chat', 'typo', 'Rome?'], { id: 'city' })
  assert.match(edited.out, /^id\tcity\nseq\t3\ndeduped\tfalse\nturn\tturn_\w+\nepoch\t2\n$/)
  const again = await type({ url, json: true }, 'regenerate', ['chat'], { message: 'city' })
  const { turn, deduped } = JSON.parse(again.out) as { turn: string; deduped: boolean }
  assert.deepEqual([again.code, deduped], [0, false])
  assert.match((await type({ url }, 'edit', ['chat', 'typo', 'x'])).err, /may have replaced the message/)
  const isDone = async () =>
    assert.equal((await call('GET', `${url}/v1/turns/${turn}`)).body['state'], 'done')
  await eventually(isDone, { what: 'the new reply' })
  const { items } = (await call('GET', `${url}/v1/sessions/chat/messages`)).body as unknown as Page
  assert.deepEqual(items.find(({ id }) => id === 'city')!.replaces, [[1, 2]])
})

test('a send while a turn runs prints only its own reply', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), {}, { agents: [mimic] })
  await type({ url }, 'create', [], { alias: 'chat', agent: 'mimic' })
  const first = type({ url }, 'send', ['chat', 'wait'])
  const head = async () => (await call('GET', `${url}/v1/sessions/chat`)).body as unknown as Session
  const isRead = async () => {
    const { turn } = await head()
    const { body } = await call('GET', `${url}/v1/turns/${turn}`)
    assert.equal((body as unknown as Turn).answers.to, 1)
  }
  await eventually(isRead, { what: 'the first message to be read' })
  const second = type({ url }, 'send', ['chat', 'second'])
  await eventually(async () => assert.equal((await head()).head, 2), { what: 'the second message' })
  waiting.resolve()
  assert.equal((await first).out, 'wait there\n')
  assert.equal((await second).out, 'second there\n')
})
