// The chat of the AI SDK on a pod: its own transport and state, without a line of ours in the page. The agent says its number, and waits in the
// middle if it is asked to.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { DefaultChatTransport, WebSocketChatTransport, type UIMessage } from 'ai'
import type { Page } from '@fleetline/protocol'
import { agent, type AgentCall } from '../../src/agent/agent.ts'
import { Abort } from '../../src/errors.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { chatOf } from '../support/use-chat.ts'
import { untilWritten } from '../support/written.ts'

const SCOPES = ['sessions:read', 'sessions:write', 'agents:write', 'tokens:mint'] as const
const textOf = ({ parts }: Pick<UIMessage, 'parts'>) =>
  parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
const json = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown
/** As the page and the log have them: a page adds what is transient. */
const plain = (messages: readonly UIMessage[]) =>
  json(messages.map(({ id, role, parts }) => ({ id, role, parts })))

async function counterPod(t: TestContext, flags: Readonly<Record<string, string>> = {}) {
  const calls: AgentCall[] = []
  const { promise: go, resolve } = Promise.withResolvers<void>()
  const counter = agent('counter', async function* (asked: AgentCall) {
    const number = calls.push(asked)
    const text = String(asked.messages.at(-1)!.parts[0]!['text'])
    if (text === 'fail') throw new Abort('invalid', 'a secret of the agent')
    yield { type: 'start', messageMetadata: { number } }
    yield { type: 'start-step' }
    yield { type: 'text-start', id: '1' }
    yield { type: 'text-delta', id: '1', delta: `reply ${number}` }
    const aborted = new Promise<void>((end) => asked.signal.addEventListener('abort', () => end()))
    if (text === 'wait') await Promise.race([go, aborted])
    if (text === 'forever') await aborted
    yield { type: 'text-delta', id: '1', delta: ' to ' }
    yield { type: 'text-delta', id: '1', delta: text }
    yield { type: 'text-end', id: '1' }
    yield { type: 'finish-step' }
    yield { type: 'finish' }
  })
  const url = await databaseFor(t)
  const agents = [counter]
  const { pod, gateway } = await podOn(t, url, { drainMs: '0', ...flags }, { agents })
  return { pod, gateway, url, agents, calls, go: resolve }
}

type Kind = 'http' | 'socket'

function transportTo(t: TestContext, kind: Kind, gateway: string, headers: Record<string, string> = {}) {
  if (kind === 'http') return new DefaultChatTransport({ api: `${gateway}/v1/chat`, headers })
  const transport = new WebSocketChatTransport({ url: `${gateway}/v1/chat/socket`, headers })
  atEnd(t, () => transport.close())
  return transport
}

async function openPod(t: TestContext, kind: Kind = 'http', flags: Readonly<Record<string, string>> = {}) {
  const made = await counterPod(t, flags)
  const { gateway } = made
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'counter' })
  const page = (messages: readonly UIMessage[] = []) =>
    chatOf({ id: 'trip', transport: transportTo(t, kind, gateway), messages })
  return {
    ...made,
    page,
    load: async () => (await (await fetch(`${gateway}/v1/chat/trip/messages`)).json()) as UIMessage[],
    stop: async (body = {}) => (await call('POST', `${gateway}/v1/chat/trip/stop`, body)).body,
    log: async () =>
      ((await call('GET', `${gateway}/v1/sessions/trip/messages`)).body as unknown as Page).items,
    post: (body: object) =>
      fetch(`${gateway}/v1/chat`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
  }
}

const streams = (chat: ReturnType<typeof chatOf>, text: string) =>
  eventually(() => assert.equal(chat.messages.at(-1) && textOf(chat.messages.at(-1)!), text), {
    what: `the page to show ${text}`,
    details: () => JSON.stringify([chat.status, chat.error, chat.messages]),
  })

for (const kind of ['http', 'socket'] as const)
  test(`D4 D6: over ${kind}, a page sends, loads, is loaded again in the middle of a reply and resumes it; what it shows is what is stored`, async (t) => {
    const { page, load, log, go } = await openPod(t, kind)
    assert.deepEqual(await load(), [], 'a chat that does not exist is empty')
    const first = page()
    await first.resumeStream()
    assert.deepEqual([first.status, first.error], ['ready', undefined], 'there is nothing to resume')
    await first.sendMessage({ text: 'hello' })
    assert.deepEqual(first.messages.map(textOf), ['hello', 'reply 1 to hello'])
    assert.deepEqual(plain(await load()), plain(first.messages))
    assert.deepEqual(first.messages[1]!.metadata, { number: 1 })

    const sent = first.sendMessage({ text: 'wait' })
    await streams(first, 'reply 2')
    const loaded = page(await load())
    assert.deepEqual(loaded.messages.map(textOf), ['hello', 'reply 1 to hello', 'wait'])
    const resumed = loaded.resumeStream()
    await streams(loaded, 'reply 2')
    go()
    await Promise.all([sent, resumed])
    assert.deepEqual(plain(loaded.messages), plain(first.messages))
    assert.deepEqual(plain(await load()), plain(first.messages))
    const items = await log()
    assert.deepEqual(
      items.map(({ id }) => id),
      first.messages.map(({ id }) => id),
    )
  })

test('E8: a stop from another page ends the stream of the first one; both show what is stored', async (t) => {
  const { page, load, stop, log, url } = await openPod(t)
  const first = page()
  const sent = first.sendMessage({ text: 'wait' })
  await streams(first, 'reply 1')
  await untilWritten(t, url, 'reply 1')
  assert.deepEqual(await stop({ activeStreamId: 'turn_of_before' }), { stopped: false, seq: null })
  assert.deepEqual(await stop(), { stopped: true, seq: 2 })
  await sent
  assert.equal(first.status, 'ready')
  assert.deepEqual(plain(await load()), plain(first.messages))
  assert.equal((await log())[1]!.status, 'stopped')
  assert.deepEqual(await stop(), { stopped: false, seq: null })
})

test('L4 E4: a request that is sent twice is one message; one that comes during a reply is answered by the next turn', async (t) => {
  const { page, post, log, go, calls } = await openPod(t)
  const first = page()
  const sent = first.sendMessage({ text: 'wait' })
  await streams(first, 'reply 1')
  const message = { id: 'again', role: 'user', parts: [{ type: 'text', text: 'meanwhile' }] }
  const twice = [0, 1].map(async () =>
    (await post({ id: 'trip', messages: [{ junk: true }, message] })).text(),
  )
  await eventually(async () => assert.equal((await log()).length, 2), { what: 'the second message' })
  go()
  await sent
  const both = await Promise.all(twice)
  for (const one of both)
    assert.match(one, /"type":"start".*"messageId":"msg_\w+"[^]*reply 2[^]*data: \[DONE\]\n\n$/)
  const ids = both.map((one) => /"messageId":"(msg_\w+)"/.exec(one)![1])
  assert.equal(ids[0], ids[1])
  const late = await (await post({ id: 'trip', message })).text()
  assert.match(late, /reply 2 to meanwhile[^]*data: \[DONE\]/, 'it is over, so it is replayed')
  assert.equal(calls.length, 2)
  assert.deepEqual(
    (await log()).map(({ id }) => id).filter((id) => id === 'again'),
    ['again'],
  )
})

test('E10: a page regenerates and edits; a repeated edit finds the one before; the log keeps all', async (t) => {
  const { page, post, load, log, calls } = await openPod(t)
  const chat = page()
  await chat.sendMessage({ text: 'Rom?' })
  const [{ id }] = chat.messages as [UIMessage]
  await chat.regenerate()
  assert.deepEqual(chat.messages.map(textOf), ['Rom?', 'reply 2 to Rom?'])
  await chat.sendMessage({ text: 'Rome?', messageId: id })
  assert.deepEqual(chat.messages.map(textOf), ['Rome?', 'reply 3 to Rome?'])
  const edited = { id, role: 'user', parts: [{ type: 'text', text: 'Rome?' }] }
  const again = await (await post({ id: 'trip', messages: [edited], messageId: id })).text()
  assert.match(again, /reply 3 to Rome\?/)
  await chat.sendMessage({ text: 'Roma?', messageId: id })
  await chat.regenerate({ messageId: chat.messages[1]!.id })
  assert.deepEqual(chat.messages.map(textOf), ['Roma?', 'reply 5 to Roma?'])
  assert.deepEqual((await load()).map(textOf), ['Roma?', 'reply 5 to Roma?'])
  assert.deepEqual(
    calls.map(({ trigger }) => trigger),
    ['submit-message', 'regenerate-message', 'submit-message', 'submit-message', 'regenerate-message'],
  )
  assert.equal((await log()).length, 8)
})

test('E10: a page that names a reply that another page has replaced, with its message, is told to load again', async (t) => {
  const { page, post, load } = await openPod(t)
  const chat = page()
  await chat.sendMessage({ text: 'one' })
  const [{ id }, { id: replaced }] = chat.messages as [UIMessage, UIMessage]
  await chat.regenerate()
  await chat.sendMessage({ text: 'two', messageId: id })
  const late = await post({ id: 'trip', trigger: 'regenerate-message', messageId: replaced, messages: [] })
  assert.equal(late.status, 409)
  assert.deepEqual((await load()).map(textOf), ['two', 'reply 3 to two'])
})

test('a page that lost its request asks again and gets the reply that is on its way; a message that never arrived is sent', async (t) => {
  const { page, post, go, calls, log } = await openPod(t)
  const message = { id: 'lost', role: 'user', parts: [{ type: 'text', text: 'wait' }] }
  const asked = { id: 'trip', trigger: 'regenerate-message', messages: [message] }
  const first = post(asked)
  await eventually(() => assert.equal(calls.length, 1), { what: 'the call' })
  go()
  assert.match(await (await first).text(), /reply 1/)
  assert.deepEqual((await log()).map(({ id }) => id).slice(0, 1), ['lost'])
  const failed = page()
  await failed.sendMessage({ text: 'fail' })
  assert.equal(failed.status, 'error')
  assert.match(failed.error!.message, /a secret of the agent/, 'a caller with a key is told why')
})

test('E10: a page that lost its request while another reply is written waits for its own; one that lost an edit edits', async (t) => {
  const { page, post, calls, go, log } = await openPod(t)
  const first = page()
  const sent = first.sendMessage({ text: 'wait' })
  await streams(first, 'reply 1')
  const message = { id: 'second', role: 'user', parts: [{ type: 'text', text: 'two' }] }
  const lost = await post({ id: 'trip', messages: [message] })
  await lost.body!.cancel()
  const retried = post({ id: 'trip', messages: [message], trigger: 'regenerate-message' })
  const [{ id }] = first.messages as [UIMessage]
  go()
  await sent
  assert.match(await (await retried).text(), /reply 2 to two/)
  assert.equal(calls.length, 2)
  const edited = { id, role: 'user', parts: [{ type: 'text', text: 'wait!' }] }
  const asked = { id: 'trip', messages: [edited], trigger: 'regenerate-message' }
  assert.match(await (await post(asked)).text(), /reply 3 to wait!/)
  assert.equal((await log()).at(-2)!.replaces![0]![0], 1)
})

test('E4: a message that a waiting turn has no room for is answered by the next turn, and its stream waits for that', async (t) => {
  const { post, log, go } = await openPod(t, 'http', { turnSlots: '1' })
  const ask = (chat: string, id: string, text: string) =>
    post({ id: chat, message: { id, role: 'user', parts: [{ type: 'text', text }] } })
  await ask('other', 'first', 'wait') // takes the only slot
  const large = 'x'.repeat(240_000) // eight of them fill what an agent is sent
  const ids = Array.from({ length: 9 }, (_, place) => `large-${place}`)
  for (const id of ids) await (await ask('trip', id, large)).body!.cancel()
  const late = await ask('trip', 'late', 'late')
  assert.equal(late.headers.get('x-fleetline-turn'), null, 'nobody knows yet which turn answers it')
  go()
  assert.match(await late.text(), /reply 3 to late[^]*\[DONE\]/)
  const replies = (await log()).filter(({ role }) => role === 'assistant')
  assert.deepEqual(
    replies.map(({ answers }) => answers),
    [8, 11],
  )
})

test('a message that is replaced before it is answered is not waited for', async (t) => {
  const { page, post, log } = await openPod(t)
  const first = page()
  void first.sendMessage({ text: 'wait' })
  await streams(first, 'reply 1')
  const message = { id: 'second', role: 'user', parts: [{ type: 'text', text: 'two' }] }
  const waiting = post({ id: 'trip', messages: [message] })
  await eventually(async () => assert.equal((await log()).length, 2), { what: 'the second message' })
  const [{ id }] = first.messages as [UIMessage]
  void post({ id: 'trip', messages: [], messageId: id, trigger: 'regenerate-message' })
  assert.match(await (await waiting).text(), /was replaced before it was answered/)
})

test('S3 S23: a user has chats of its own; what is not supported, or not allowed, is said in a sentence', async (t) => {
  const { pod, gateway } = await counterPod(t, CLOSED)
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend', scopes: SCOPES })
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'counter' }, key)
  const pageOf = async (user: string, rights = ['read', 'send', 'stop', 'create'], id = 'trip') => {
    const { body } = await call('POST', `${gateway}/v1/tokens`, { user, rights }, key)
    const headers = { authorization: `Bearer ${String(body['token'])}` }
    return chatOf({ id, transport: new DefaultChatTransport({ api: `${gateway}/v1/chat`, headers }) })
  }
  const [ada, ben] = [await pageOf('ada'), await pageOf('ben')]
  await ada.sendMessage({ text: 'hello' })
  await ben.sendMessage({ text: 'hello' })
  assert.deepEqual(
    [ada, ben].map(({ messages }) => textOf(messages[1]!)),
    ['reply 1 to hello', 'reply 2 to hello'],
  )
  await ben.sendMessage({ text: 'fail' })
  assert.deepEqual([ben.status, ben.error!.message], ['error', 'The reply has failed.'])
  const eve = await pageOf('eve', ['read', 'send'])
  await eve.sendMessage({ text: 'hello' })
  assert.equal(
    eve.error!.message,
    'There is no such chat for you. To begin one, use a token with the right create that is not limited to sessions.',
  )
  const { body } = await call(
    'POST',
    `${gateway}/v1/sessions`,
    { alias: 'shared', agent: 'counter', members: ['ada'] },
    key,
  )
  const [member, stranger] = [
    await pageOf('ada', undefined, 'shared'),
    await pageOf('eve', undefined, String(body['session'])),
  ]
  await member.sendMessage({ text: 'hello' })
  await stranger.sendMessage({ text: 'hello' })
  assert.equal(stranger.error!.message, 'There is no such session, or it is not yours.')
  const items = (
    (await call('GET', `${gateway}/v1/sessions/shared/messages`, undefined, key)).body as unknown as Page
  ).items
  assert.deepEqual(
    items.map(({ author }) => author),
    [
      { kind: 'user', id: 'ada' },
      { kind: 'agent', id: 'counter' },
    ],
  )
})

for (const kind of ['http', 'socket'] as const)
  test(`D6: over ${kind}, a pod that drains lets a reply end; a pod that stops breaks the stream, and never ends it`, async (t) => {
    const { page, pod, go } = await openPod(t, kind, { drainMs: '60000' })
    const chat = page()
    const sent = chat.sendMessage({ text: 'wait' })
    await streams(chat, 'reply 1')
    const stopped = pod.stop()
    go()
    await Promise.all([sent, stopped])
    assert.deepEqual([chat.status, textOf(chat.messages[1]!)], ['ready', 'reply 1 to wait'])
    const hurried = await openPod(t, kind)
    const cut = hurried.page()
    const broken = cut.sendMessage({ text: 'wait' })
    await streams(cut, 'reply 1')
    const { gateway: other } = await podOn(t, hurried.url, {}, { agents: hurried.agents })
    await Promise.all([hurried.pod.stop(), broken])
    assert.equal(cut.status, 'error')
    const headers = { 'x-fleetline-ai-sdk': '7.0.169' }
    const resumed = chatOf({
      id: 'trip',
      transport: transportTo(t, kind, other, headers),
      messages: cut.messages,
    })
    const whole = resumed.resumeStream()
    await eventually(() => assert.equal(resumed.status, 'streaming'), { what: 'the stream' }) // the first pod may have shown the second attempt already
    await streams(resumed, 'reply 2')
    hurried.go()
    await whole
    assert.deepEqual(
      [resumed.status, textOf(resumed.messages[1]!)],
      ['ready', 'reply 2 to wait'],
      JSON.stringify([resumed.messages, await (await fetch(`${other}/v1/sessions/trip/messages`)).json()]),
    )
  })

test('D6: a draining pod’s socket closes once its older replies have ended; a newer reply resumes on another pod', async (t) => {
  const { page, pod, gateway, go, url, agents } = await openPod(t, 'socket', { drainMs: '100000' })
  const transport = transportTo(t, 'socket', gateway)
  const [before, since] = ['before', 'since'].map((id) => chatOf({ id, transport }))
  const sent = before!.sendMessage({ text: 'wait' })
  await streams(before!, 'reply 1')
  const { gateway: other } = await podOn(t, url, { drainMs: '0' }, { agents })
  await page().sendMessage({ text: 'hello' }) // a session to follow
  const stopped = pod.stop()
  const isMoving = async () => {
    const { status, body } = await fetch(`${gateway}/v1/sessions/trip/events`)
    await body?.cancel()
    assert.equal(status, 503)
  }
  await eventually(isMoving, { what: 'the pod to send its clients away' })
  const late = since!.sendMessage({ text: 'forever' })
  await streams(since!, 'reply 3')
  go()
  await sent
  await eventually(() => assert.equal(since!.status, 'error'), { what: 'the socket to close' })
  await Promise.all([stopped, late])
  assert.deepEqual([before!.status, textOf(before!.messages[1]!)], ['ready', 'reply 1 to wait'])
  const messages = (await (await fetch(`${other}/v1/chat/since/messages`)).json()) as UIMessage[]
  assert.deepEqual(plain(messages), plain(since!.messages.slice(0, 1)), 'nothing is lost')
  const resumed = chatOf({ id: 'since', transport: transportTo(t, 'http', other), messages })
  void resumed.resumeStream()
  await streams(resumed, 'reply 3')
  assert.equal(resumed.messages[1]!.id, since!.messages[1]!.id)
  await call('POST', `${other}/v1/chat/since/stop`, {})
})

test('a request that cannot be taken is answered with a sentence as plain text', async (t) => {
  const { post, gateway } = await openPod(t)
  const reply = { id: 'r', role: 'assistant', parts: [{ type: 'text', text: 'x' }] }
  const said = async (answer: Promise<Response>) => {
    const { status, headers } = await answer
    return [status, headers.get('content-type'), await (await answer).text()]
  }
  const text = 'text/plain; charset=utf-8'
  assert.deepEqual(await said(post({ id: 'trip', messages: [reply] })), [
    400,
    text,
    'The last message has the role assistant. Approvals of tool calls and outputs of tools that run in the page are not supported yet. Send a message with the role user.',
  ])
  assert.deepEqual(await said(post({ id: 'trip', messages: [] })), [
    400,
    text,
    'There is no message to send.',
  ])
  assert.deepEqual(await said(post({ id: 'no alias', messages: [{ ...reply, role: 'user' }] })), [
    400,
    text,
    "Without a user's token, the id of a chat has 1 to 128 of the characters A-Z a-z 0-9 . _ : @ -",
  ])
  const large = {
    id: 'trip',
    messages: Array.from({ length: 30 }, () => ({ ...reply, text: 'x'.repeat(100_000) })),
  }
  assert.equal((await said(post(large)))[0], 400, 'it is read, though it is larger than other bodies may be')
  const strange = await said(
    fetch(`${gateway}/v1/chat/trip/stream`, { headers: { 'x-fleetline-ai-sdk': 'seven' } }),
  )
  assert.equal(strange[0], 400)
  const old = await said(
    fetch(`${gateway}/v1/chat/trip/stream`, { headers: { 'x-fleetline-ai-sdk': '4.3.19' } }),
  )
  assert.deepEqual(old, [
    400,
    text,
    'headers.x-fleetline-ai-sdk: AI SDK 4 does not work with Fleetline. Use 5, 6 or 7',
  ])
  const [tooLarge, , words] = await said(post({ id: 'trip', messages: [{ text: 'x'.repeat(4_200_000) }] }))
  assert.equal(tooLarge, 413)
  assert.match(
    String(words),
    /FLEETLINE_CHAT_BODY_LIMIT_BYTES .* last message, with prepareSendMessagesRequest/,
  )
  const json = { 'content-type': 'application/json' }
  for (const given of [{}, { headers: json }, { headers: json, body: 'null' }]) {
    const stopped = await fetch(`${gateway}/v1/chat/trip/stop`, { method: 'POST', ...given })
    assert.deepEqual([stopped.status, await stopped.json()], [200, { stopped: false, seq: null }])
  }
})

test('S8 S16: a socket for chats takes a ticket or a token in its frames, and an abort ends a stream and not the reply', async (t) => {
  const { pod, gateway, go, calls } = await counterPod(t, CLOSED)
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend', scopes: SCOPES })
  await call('PATCH', `${gateway}/v1/tenant`, { defaultAgent: 'counter' }, key)
  const { body } = await call(
    'POST',
    `${gateway}/v1/tokens`,
    { user: 'ada', rights: ['read', 'send', 'create'] },
    key,
  )
  const token = String(body['token'])
  const authorization = `Bearer ${token}`
  const chat = chatOf({ id: 'trip', transport: transportTo(t, 'socket', gateway, { authorization }) })
  const sent = chat.sendMessage({ text: 'wait' })
  await streams(chat, 'reply 1')
  await chat.stop()
  await sent
  assert.equal(calls[0]!.signal.aborted, false)
  const { ticket } = (await call('POST', `${gateway}/v1/tickets`, {}, token)).body as { ticket: string }
  const transport = new WebSocketChatTransport({ url: `${gateway}/v1/chat/socket`, params: { ticket } })
  atEnd(t, () => transport.close())
  const other = chatOf({ id: 'trip', transport, messages: chat.messages.slice(0, 1) })
  const resumed = other.resumeStream()
  await streams(other, 'reply 1')
  go()
  await resumed
  assert.equal(textOf(other.messages[1]!), 'reply 1 to wait')
  await other.sendMessage({ text: 'x'.repeat(150_000) })
  await other.sendMessage({ text: 'x'.repeat(150_000) })
  await other.sendMessage({ text: 'the whole conversation is over 512 KiB now' })
  assert.equal(other.status, 'ready', 'a client that the handshake knows may send large frames')
  const stranger = chatOf({ id: 'trip', transport: transportTo(t, 'socket', gateway) })
  await stranger.sendMessage({ text: 'hello' })
  assert.match(stranger.error!.message, /4401/)
})

test('an abort that overtakes its request ends it: the message is stored, and no stream begins', async (t) => {
  const { gateway, log } = await openPod(t)
  const socket = new WebSocket(`${gateway}/v1/chat/socket`)
  atEnd(t, () => socket.close())
  const frames: { readonly type: string; readonly requestId: string }[] = []
  socket.addEventListener('message', ({ data }) => frames.push(JSON.parse(String(data))))
  await new Promise((resolve) => socket.addEventListener('open', resolve))
  const send = (requestId: string) => {
    const message = { id: requestId, role: 'user', parts: [{ type: 'text', text: 'hello' }] }
    return { type: 'send', requestId, id: 'trip', messages: [message] }
  }
  const typesOf = (id: string) => frames.flatMap(({ type, requestId }) => (requestId === id ? [type] : []))
  for (const frame of [send('1'), send('2'), { type: 'abort', requestId: '2' }, send('3')])
    socket.send(JSON.stringify(frame))
  await eventually(() => assert.equal(typesOf('3').at(-1), 'end'), { what: 'the last reply' })
  assert.deepEqual(typesOf('2'), ['end', 'end'], 'one for the abort, and one for the request')
  assert.equal(typesOf('1')[0], 'start')
  assert.deepEqual(
    (await log()).filter(({ role }) => role === 'user').map(({ id }) => id),
    ['1', '2', '3'],
  )
})

test('S16: frames that the transport does not send are answered with an error that it can read, or close the socket', async (t) => {
  const { gateway } = await openPod(t)
  const socket = new WebSocket(`${gateway}/v1/chat/socket`)
  atEnd(t, () => socket.close())
  const frames: unknown[] = []
  socket.addEventListener('message', ({ data }) => frames.push(JSON.parse(String(data))))
  await new Promise((resolve) => socket.addEventListener('open', resolve))
  const ended = new Promise((resolve) => socket.addEventListener('close', ({ code }) => resolve(code)))
  for (const frame of [
    { type: 'approve', requestId: '1' },
    { type: 'send', requestId: '2', id: 'trip', messages: [] },
    { type: 'resume', requestId: '3', id: 'trip', headers: { 'x-fleetline-ai-sdk': 'seven' } },
    { type: 'abort', requestId: '4' },
    { type: 'resume', requestId: '5', id: 'trip', headers: { 'x-fleetline-ai-sdk': '4.3.19' } },
  ])
    socket.send(JSON.stringify(frame))
  await eventually(() => assert.equal(frames.length, 5), { what: 'five answers' })
  const byRequest = new Map((frames as { requestId: string }[]).map((frame) => [frame.requestId, frame]))
  assert.deepEqual(byRequest.get('1'), {
    type: 'error',
    requestId: '1',
    errorText: 'frame.type: must be one of send, resume, abort',
  })
  assert.deepEqual(byRequest.get('2'), {
    type: 'error',
    requestId: '2',
    errorText: 'There is no message to send.',
  })
  assert.deepEqual(byRequest.get('3'), { type: 'no-active', requestId: '3' })
  assert.deepEqual(byRequest.get('4'), { type: 'end', requestId: '4' })
  assert.match(
    JSON.stringify(byRequest.get('5')),
    /"error".*AI SDK 4 does not work with Fleetline\. Use 5, 6 or 7"/,
  )
  socket.send('[]')
  assert.equal(await ended, 4400)
})
