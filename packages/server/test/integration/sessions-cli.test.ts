// What `fleetline sessions …` prints and where, and the exit code of each kind of failure; in this process.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Ack, Item, Session, Turn } from '@fleetline/protocol'
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
/** Says the last message again, but for a few. */
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

test('data goes to stdout as a table, tabs or JSON; a failure to stderr, with its exit code', async (t) => {
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

  const absent = session.replace(/.{6}$/, '000000')
  const failures = [
    [
      await type({ url }, 'get', [absent]),
      3,
      /no such session.*Check the id.*\(GET \/v1\/sessions\/ses_\w+, req_/,
    ],
    [
      await type({ url }, 'send', [session, 'other'], { id: 'm-1' }),
      4,
      /The id m-1 is taken by another message, at seq 1/,
    ],
    [await type({ url }, 'send', [session, 'hi'], { ifHead: '' }), 2, /--if-head must be a whole number/],
    [await type({ url }, 'ls', [], { limit: '0' }), 2, /query.limit: must be from 1 to 100/],
    [
      await type({ url: 'http://127.0.0.1:1' }, 'tail', [session]),
      5,
      /no answer from http:.*running there\?/,
    ],
    [
      await type({ url: 'http://127.0.0.1:1' }, 'send', [session, 'x']),
      5,
      /again with --id [0-9a-f]{32}, it is/,
    ],
    [await type(json, 'tail', [absent]), 3, /^\{"error":\{"code":"not_found"/],
  ] as const
  for (const [{ code, out, err }, expected, text] of failures) {
    assert.match(err, text)
    assert.deepEqual([code, out], [expected, ''], err)
  }
})

test('what something in between answers, and an answer that breaks off, may be asked again: exit 5', async (t) => {
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
  const sent = async (session: string) => {
    const { code, err } = await type({ url }, 'send', [session, 'hi'], { id: 'm-1' })
    return [code, err]
  }
  const [bad, cut, odd] = [await sent('bad'), await sent('cut'), await sent('odd')]
  assert.deepEqual([bad[0], cut[0], odd[0]], [5, 5, 1])
  assert.match(String(bad[1]), /502, not by Fleetline.*sent again with --id m-1/)
  assert.match(String(cut[1]), /broke off.*sent again with --id m-1/)
  assert.match(String(odd[1]), /418, not by Fleetline/)
})

test('a send to an agent prints its reply and nothing else on stdout; how it ends is the exit code', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), {}, { agents: [mimic] })
  await type({ url }, 'create', [], { alias: 'chat', agent: 'mimic' })
  const send = (text: string, options = {}) => type({ url }, 'send', ['chat', text], options)
  const hello = await send('hello', { id: 'm-1' })
  assert.deepEqual([hello.code, hello.out], [0, 'hello there\n'])
  assert.match(
    hello.err,
    /^Stored at seq 1\.\n(turn_\w+ is queued\n)?(turn_\w+ is running on \S+ \(attempt 1\)\n)?$/,
  )
  const again = await send('hello', { id: 'm-1' })
  assert.deepEqual([again.code, again.out, again.err], [0, 'hello there\n', 'Stored at seq 1.\n'])

  const { out } = await type({ url, json: true }, 'send', ['chat', 'bye'])
  const [ack, item] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Item & Ack)
  assert.deepEqual(
    [ack!.seq, item!.answers, item!.turn, item!.parts[0]!['text']],
    [3, 3, ack!.turn, 'bye there'],
  )

  const steered = await send('\u001B[2Jboo')
  assert.deepEqual([steered.code, steered.out], [0, '[2Jboo there\n'])
  const failed = await send('fail')
  assert.deepEqual([failed.code, failed.out], [1, ''])
  assert.match(failed.err, /turn_\w+ failed: .*refused.*next one\.\n$/)
  const repeated = await send('fail', { id: 'm-7' })
  assert.deepEqual([repeated.code, (await send('fail', { id: 'm-7' })).code], [1, 1])
  const quiet = await send('quiet')
  assert.deepEqual([quiet.code, quiet.out], [0, ''])
  assert.match(quiet.err, /The agent has nothing to say to it\.\n$/)
  const unasked = await send('psst', { reply: false })
  assert.match(unasked.out, /^id\t\w+\nseq\t10\ndeduped\tfalse\n$/)
  assert.match((await send('later', { wait: false })).out, /^id\t\w+\nseq\t11\ndeduped\tfalse\nturn\tturn_/)
})

test('stop ends the live turn; who waits for its reply is told so; where none is live it says that', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), {}, { agents: [mimic] })
  await type({ url }, 'create', [], { alias: 'chat', agent: 'mimic' })
  const sent = type({ url }, 'send', ['chat', 'wait'], { id: 'm-1' })
  const isLive = async () =>
    assert.equal(((await call('GET', `${url}/v1/sessions/chat`)).body as unknown as Session).state, 'working')
  await eventually(isLive, { what: 'the turn' })
  const stopped = await type({ url }, 'stop', ['chat'])
  assert.deepEqual([stopped.code, stopped.err], [0, ''])
  assert.match(stopped.out, /^stopped\ttrue\nseq\tnull\nturn\tturn_\w+\n$/)
  const { code, out, err } = await sent
  assert.deepEqual([code, out], [1, ''])
  assert.match(err, /The reply was stopped\. Nothing of it is kept\. The message is stored/)
  const repeated = await type({ url }, 'send', ['chat', 'wait'], { id: 'm-1' })
  assert.deepEqual([repeated.code, /its turn failed, was stopped/.test(repeated.err)], [1, true])
  const idle = await type({ url, json: true }, 'stop', ['chat'])
  assert.deepEqual([idle.code, JSON.parse(idle.out)], [0, { stopped: false, seq: null, turn: null }])
  assert.match((await type({ url }, 'stop', ['chat'])).err, /nothing to stop/)
})

test('a send while a turn runs prints the reply to itself alone', async (t) => {
  const { gateway: url } = await podOn(t, await databaseFor(t), {}, { agents: [mimic] })
  await type({ url }, 'create', [], { alias: 'chat', agent: 'mimic' })
  const first = type({ url }, 'send', ['chat', 'wait'])
  const head = async () => (await call('GET', `${url}/v1/sessions/chat`)).body as unknown as Session
  const isRead = async () => {
    const { turn } = await head()
    const { body } = await call('GET', `${url}/v1/turns/${turn}`)
    assert.equal((body as unknown as Turn).answers.to, 1)
  }
  await eventually(isRead, { what: 'the first to be read' })
  const second = type({ url }, 'send', ['chat', 'second'])
  await eventually(async () => assert.equal((await head()).head, 2), { what: 'the second' })
  waiting.resolve()
  assert.deepEqual([(await first).out, (await second).out], ['wait there\n', 'second there\n'])
})
