// The socket on real pods: following, sending and the inbox over one connection, and who may do what on it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { CLOSE_CODES, SOCKET_LIMITS, SOCKET_PROTOCOL, type Ack, type Item } from '@fleetline/protocol'
import { agent } from '../../src/index.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { fill } from '../support/fill.ts'
import { call, makeSession } from '../support/http.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { openText } from '../support/reader.ts'
import { refusedHandshake, socketOn, type Socket } from '../support/socket.ts'
import { openDatabase } from '../support/store.ts'
import { saying } from '../support/talk.ts'

const HOLD = agent('hold', async function* ({ signal }) {
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  yield { type: 'text-delta', id: '1', delta: 'half' }
  await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
})
const REPLY = agent('reply', () => saying('Here you are.'))

/** Two pods that anybody of this machine may use. */
async function twoPods(t: TestContext, flags: Readonly<Record<string, string>> = {}) {
  const url = await databaseFor(t)
  const here = await podOn(t, url, flags, { agents: [HOLD, REPLY] })
  const there = await podOn(t, url, flags)
  const say = async (session: string, text: string) =>
    (await call('POST', `${here.gateway}/v1/sessions/${session}/messages`, { text })).body as unknown as Ack
  return { url, here, there, say }
}

/** A pod that wants tokens; `as` mints them. */
async function closedPod(t: TestContext) {
  const url = await databaseFor(t)
  const { pod, gateway } = await podOn(t, url, CLOSED, { agents: [HOLD] })
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const api = async <Body>(method: string, path: string, body?: unknown, token = key) => {
    const answer = await call(method, `${gateway}/v1${path}`, body, token)
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer)}`)
    return answer.body as Body
  }
  return {
    gateway,
    key,
    api,
    as: async (user: string, more: object = {}) =>
      (await api<{ token: string }>('POST', '/tokens', { user, ...more })).token,
    make: async (alias: string, members: readonly string[]) =>
      (await api<{ session: string }>('POST', '/sessions', { alias, members })).session,
    say: (session: string, text: string) => api('POST', `/sessions/${session}/messages`, { text }),
  }
}

function itemsOf(socket: Socket, session: string): readonly Item[] {
  return socket
    .followed()
    .flatMap((frame) => (frame.type === 'messages' && frame.session === session ? frame.items : []))
}

function untilSeq(socket: Socket, session: string, seq: number): Promise<void> {
  return eventually(() => assert.equal(itemsOf(socket, session).at(-1)?.seq, seq), {
    what: `${session} to be at ${seq}`,
    details: () => JSON.stringify(socket.frames.at(-1)),
  })
}

const seqsOf = (items: readonly Item[]) => items.map(({ seq }) => seq)
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)

test('D1: one socket follows several sessions, each from its position, and resumes on another pod without a gap', async (t) => {
  const { here, there, say } = await twoPods(t)
  const sessions = await Promise.all([1, 2, 3].map(async () => (await makeSession(here.gateway)).session))
  for (const session of sessions) for (const n of numbers(1, 3)) await say(session, `stored ${n}`)
  const first = await socketOn(t, here.gateway)
  for (const [n, session] of sessions.entries()) {
    const joined = await first.ask({ type: 'join', session, after: n })
    assert.ok(
      joined.type === 'joined' && joined.from === n && joined.facts.head === 3,
      JSON.stringify(joined),
    )
  }
  await Promise.all(sessions.map((session) => say(session, 'live')))
  for (const [n, session] of sessions.entries()) {
    await untilSeq(first, session, 4)
    assert.deepEqual(seqsOf(itemsOf(first, session)), numbers(n + 1, 4))
  }
  first.cut()
  await Promise.all(sessions.map((session) => say(session, 'while away')))
  const second = await socketOn(t, there.gateway)
  for (const session of sessions) {
    const { cursor } = first.followed().findLast((frame) => frame.session === session)!
    await second.ask({ type: 'join', session, cursor })
    await untilSeq(second, session, 5)
    assert.deepEqual(seqsOf(itemsOf(second, session)), [5])
  }
  const left = await second.ask({ type: 'leave', session: sessions[0]! })
  assert.equal(left.type, 'ack')
  await Promise.all(sessions.map((session) => say(session, 'after one has left')))
  await untilSeq(second, sessions[1]!, 6)
  await untilSeq(second, sessions[2]!, 6)
  await there.pod.stop()
  assert.equal((await second.closed).code, CLOSE_CODES.restart)
  assert.deepEqual(seqsOf(itemsOf(second, sessions[0]!)), [5])
})

test('D3: a join without a position, too far behind or of another history begins with the last messages, and says so', async (t) => {
  const { url, here, say } = await twoPods(t)
  const { session } = await makeSession(here.gateway)
  await fill(url, { count: 600, length: 1 })
  const socket = await socketOn(t, here.gateway)
  const cases: readonly (readonly [position: object, from: number])[] = [
    [{}, 550],
    [{ after: null, cursor: null }, 550],
    [{ limit: 3 }, 597],
    [{ after: 99, limit: 3 }, 597],
    [{ after: 100 }, 100],
    [{ cursor: '99.0' }, 550],
    [{ cursor: '598.0' }, 598],
    [{ cursor: '601.0', limit: 10 }, 590],
    [{ after: 600 }, 600],
  ]
  for (const [position, from] of cases) {
    const at = socket.frames.length
    const joined = await socket.ask({ type: 'join', session, ...position })
    assert.ok(joined.type === 'joined' && joined.from === from, JSON.stringify([position, joined]))
    if (from === 600) continue
    await eventually(
      () => {
        const items = socket.frames.slice(at).flatMap((one) => (one.type === 'messages' ? one.items : []))
        assert.deepEqual(seqsOf(items), numbers(from + 1, 600))
      },
      { what: `the messages after ${from}` },
    )
  }
  await say(session, 'new')
  await untilSeq(socket, session, 601)
  const database = await openDatabase(t, url)
  await database.transaction(async (query) => {
    await query('delete from fleetline.messages where seq > 1')
    await query('update fleetline.sessions set head = 1')
  })
  assert.deepEqual(await socket.next('gap').then(({ from, to }) => [from, to]), [602, 0])
})

test('D3 S17: a reader that does not read is closed with a position, and returns whole; the others get everything meanwhile', async (t) => {
  const { url, here, say } = await twoPods(t, { stallMs: '1000' })
  const { session } = await makeSession(here.gateway)
  const count = 120 // more than the system holds for a connection
  await fill(url, { count, length: 250_000 })
  const [healthy, stalled] = [await socketOn(t, here.gateway), await socketOn(t, here.gateway)]
  const pings = setInterval(() => stalled.ws.ping(), 200).unref() // a client that sends and does not read is no better
  atEnd(t, () => clearInterval(pings))
  await stalled.ask({ type: 'join', session, after: 0 })
  stalled.ws.pause()
  await healthy.ask({ type: 'join', session, after: 0 })
  await untilSeq(healthy, session, count)
  const followers = async () => /^fleetline_followers (\d+)$/m.exec(await textOf(`${here.admin}/metrics`))![1]
  await eventually(async () => assert.equal(await followers(), '1'), { what: 'the stalled reader to be cut' })
  await say(session, 'meanwhile')
  stalled.ws.resume()
  const { code, reason } = await stalled.closed
  assert.ok(code === CLOSE_CODES.slow || code === 1006, `${code}`)
  if (code === CLOSE_CODES.slow)
    assert.match(reason, /^The client reads too slowly\. Last sent: ses_\w+ at \d+$/)
  assert.ok(itemsOf(stalled, session).length < count, 'it has not got everything')
  const back = await socketOn(t, here.gateway)
  const { cursor } = stalled.followed().at(-1)!
  await back.ask({ type: 'join', session, cursor })
  for (const socket of [back, healthy]) await untilSeq(socket, session, count + 1)
  const whole = [...itemsOf(stalled, session), ...itemsOf(back, session)]
  assert.deepEqual(seqsOf(whole), numbers(1, count + 1))
  assert.deepEqual(seqsOf(itemsOf(healthy, session)), numbers(1, count + 1))
})

async function textOf(url: string): Promise<string> {
  return (await fetch(url)).text()
}

test('commands answer once, after the commit, and do what their routes do; a repeat changes nothing', async (t) => {
  const { here, there } = await twoPods(t)
  const { session } = await makeSession(here.gateway, { agent: 'hold', members: ['ada'] })
  const [socket, elsewhere] = [await socketOn(t, here.gateway), await socketOn(t, there.gateway)]
  for (const one of [socket, elsewhere]) await one.ask({ type: 'join', session })
  const message = { id: 'm-1', parts: [{ type: 'text', text: 'hi' }] }
  const sent = await socket.ask({ type: 'send', session, message, author: 'ada' })
  assert.ok(
    sent.type === 'ack' && sent.seq === 1 && sent.deduped === false && sent.turn,
    JSON.stringify(sent),
  )
  const again = await socket.ask({ type: 'send', session, message, author: 'ada' })
  assert.deepEqual({ ...again, cid: '' }, { ...sent, cid: '', deduped: true })
  const isThere = () => assert.equal(openText(elsewhere.followed(), sent.turn!), 'half')
  await eventually(isThere, { what: 'the words on the other pod' }) // so they are written, and the stop finds them
  const stop = { type: 'stop', session, turn: sent.turn, epoch: sent.epoch } as const
  const stopped = await socket.ask(stop)
  assert.ok(stopped.type === 'ack' && stopped.stopped === true && stopped.seq === 2, JSON.stringify(stopped))
  assert.deepEqual({ ...(await socket.ask(stop)), cid: '' }, { ...stopped, cid: '' })
  assert.deepEqual(await socket.ask({ type: 'read', cid: 'r', session, seq: 9, user: 'ada' }), {
    type: 'ack',
    cid: 'r',
    read: 2,
    unread: 0,
  })
  await untilSeq(socket, session, 2)
  const refusals: readonly (readonly [frame: object, code: string, text: RegExp])[] = [
    [{ type: 'send', session, id: 'x', message }, 'invalid', /^frame\.id: put it into message\.id/],
    [
      { type: 'send', session, message: { ...message, id: undefined } },
      'invalid',
      /^frame\.message\.id: is missing/,
    ],
    [
      { type: 'send', session, message: { id: 'm-1', parts: [{ type: 'x' }] } },
      'conflict',
      /^The id m-1 is taken/,
    ],
    [
      { type: 'send', session, message: { id: 'm-2', parts: [{ type: 'x' }] }, ifHead: 1 },
      'stale',
      /^The head is 2/,
    ],
    [{ type: 'join', session, cursor: '1', after: 1 }, 'invalid', /send cursor or after, not both/],
    [{ type: 'join', session, cursor: 'x' }, 'invalid', /must be the cursor of a frame of this session/],
    [{ type: 'join', session: 'nobody' }, 'not_found', /^There is no such session/],
    [
      { type: 'read', session, seq: 1 },
      'invalid',
      /^frame\.user: is missing\. A caller with a key names the user/,
    ],
    [{ type: 'stop', session, turn: 'x', epoch: 1 }, 'invalid', /^frame\.turn: is not the id of a turn/],
    [{ type: 'approve', session }, 'invalid', /^frame\.type: must be one of hello, ping, join/],
  ]
  for (const [frame, code, text] of refusals) {
    const answer = await socket.ask(frame as { type: 'join' })
    assert.ok(answer.type === 'error' && answer.code === code, JSON.stringify(answer))
    assert.match(answer.text, text)
    assert.match(answer.requestId, /^req_/)
  }
})

test('a socket follows at most 128 sessions, also if they are joined at the same time', async (t) => {
  const { here } = await twoPods(t)
  const most = SOCKET_LIMITS.joined
  const made = await Promise.all(numbers(0, most).map(() => makeSession(here.gateway)))
  const socket = await socketOn(t, here.gateway)
  const answers = await Promise.all(made.map(({ session }) => socket.ask({ type: 'join', session })))
  const refused = answers.filter((answer) => answer.type === 'error')
  assert.deepEqual(
    refused.map(({ code }) => code),
    ['too_many'],
  )
  const joined = made[answers.findIndex(({ type }) => type === 'joined')]!.session
  assert.equal(
    (await socket.ask({ type: 'join', session: joined })).type,
    'joined',
    'again is no further one',
  )
  await socket.ask({ type: 'leave', session: joined })
  const other = made[answers.findIndex(({ type }) => type === 'error')]!.session
  assert.equal((await socket.ask({ type: 'join', session: other })).type, 'joined')
  const followers = async () => /^fleetline_followers (\d+)$/m.exec(await textOf(`${here.admin}/metrics`))![1]
  assert.equal(await followers(), String(most))
  socket.cut()
  await eventually(async () => assert.equal(await followers(), '0'), { what: 'no followers' })
})

test('S3 S4: a user follows and changes only its own sessions, by the rights of its token', async (t) => {
  const { gateway, key, as, make, say } = await closedPod(t)
  const [own, other] = [await make('own', ['ada']), await make('other', ['bob'])]
  const nobody = await socketOn(t, gateway)
  const { code, reason } = await nobody.closed
  assert.deepEqual([code, /"type":"hello","token"/.test(reason)], [CLOSE_CODES.unauthenticated, true], reason)
  const ada = await socketOn(t, gateway, {
    hello: { type: 'hello', token: await as('ada', { rights: ['read'] }) },
  })
  assert.equal((await ada.next('welcome')).user, 'ada')
  const missing = await ada.ask({ type: 'join', session: 'missing' })
  for (const session of [other, 'other']) {
    for (const frame of [{ type: 'join' }, { type: 'read', seq: 1 }] as const) {
      const answer = await ada.ask({ ...frame, session })
      assert.deepEqual(
        { ...answer, cid: '', requestId: '' },
        { ...missing, cid: '', requestId: '' },
        `${frame.type} ${session}`,
      )
    }
  }
  const message = { id: 'm', parts: [{ type: 'text', text: 'hi' }] }
  const sent = await ada.ask({ type: 'send', session: own, message })
  assert.ok(sent.type === 'error' && sent.code === 'forbidden', JSON.stringify(sent))
  assert.equal((await ada.ask({ type: 'join', session: 'own' })).type, 'joined')
  await say(other, 'not for ada')
  await say(own, 'for ada')
  await untilSeq(ada, own, 1)
  assert.deepEqual(
    ada.followed().filter(({ session }) => session !== own),
    [],
  )
  const program = await socketOn(t, gateway, { headers: { authorization: `Bearer ${key}` }, hello: null })
  assert.equal((await program.next('welcome')).user, null)
  assert.equal((await program.ask({ type: 'join', session: other })).type, 'joined')
})

test('S3 S9: what a user may not see any more is left; a revoked user is closed; other rights hold at once', async (t) => {
  const { gateway, api, as, make, say } = await closedPod(t)
  const [first, second] = [await make('first', ['ada']), await make('second', ['ada'])]
  const ada = await socketOn(t, gateway, { hello: { type: 'hello', token: await as('ada') } })
  for (const session of [first, second]) await ada.ask({ type: 'join', session })
  await ada.ask({ type: 'inbox', on: true })
  await api('DELETE', `/sessions/${first}/members/ada`)
  assert.deepEqual(await ada.next('left'), {
    type: 'left',
    session: first,
    code: 'not_found',
    text: 'There is no such session, or it is not yours.',
  })
  await say(first, 'not for ada any more')
  await api('PUT', `/sessions/${first}/members/ada`)
  assert.equal((await ada.ask({ type: 'join', session: first })).type, 'joined')
  ada.send({ type: 'hello', token: await as('ada', { sessions: [first] }) })
  const isLeft = (session: string | null, code: string) => () =>
    assert.ok(ada.frames.some((one) => one.type === 'left' && one.session === session && one.code === code))
  await eventually(isLeft(second, 'not_found'), {
    what: 'the session that the new token does not name to be left',
  })
  await eventually(
    () => {
      const last = ada.frames.findLast((one) => one.type === 'inbox')
      assert.ok(last?.reset && last.items.every(({ session }) => session === first), JSON.stringify(last))
    },
    { what: 'the inbox of the new token' },
  )
  ada.send({ type: 'hello', token: await as('ada', { rights: ['send'] }) })
  for (const session of [first, null])
    await eventually(isLeft(session, 'forbidden'), {
      what: `${session} to be left without the right to read`,
    })
  ada.send({ type: 'hello', token: await as('bob') })
  assert.equal((await ada.closed).code, CLOSE_CODES.otherUser)

  const token = await as('ada')
  const revoked = await socketOn(t, gateway, { protocols: [`token.${token}`], hello: null })
  await revoked.next('welcome')
  await api('POST', '/tokens/revoke', { user: 'ada' })
  const { code, reason } = await revoked.closed
  assert.deepEqual([code, /revoked/.test(reason)], [CLOSE_CODES.unauthenticated, true], reason)
})

test('S8: a ticket opens one socket; used again, it is refused with a code that a page can read', async (t) => {
  const { gateway, api, as, make } = await closedPod(t)
  const session = await make('talk', ['ada'])
  const { ticket } = await api<{ ticket: string }>('POST', '/tickets', undefined, await as('ada'))
  const query = `?ticket=${ticket}`
  const ada = await socketOn(t, gateway, { query, hello: null })
  assert.equal((await ada.next('welcome')).user, 'ada')
  assert.equal((await ada.ask({ type: 'join', session })).type, 'joined')
  const again = await socketOn(t, gateway, { query, hello: null })
  const { code, reason } = await again.closed
  assert.deepEqual(
    [code, reason.startsWith('This ticket is not valid')],
    [CLOSE_CODES.unauthenticated, true],
    reason,
  )
})

test('the inbox over a socket: a first page, then changes; it can end and begin again', async (t) => {
  const { gateway, as, make, say } = await closedPod(t)
  const session = await make('talk', ['ada'])
  const ada = await socketOn(t, gateway, { hello: { type: 'hello', token: await as('ada') } })
  const inboxes = () => ada.frames.filter((frame) => frame.type === 'inbox')
  const untilInbox = (check: (last: ReturnType<typeof inboxes>[number]) => boolean, what: string) =>
    eventually(
      () => assert.ok(inboxes().length > 0 && check(inboxes().at(-1)!), JSON.stringify(inboxes().at(-1))),
      {
        what,
      },
    )
  await ada.ask({ type: 'inbox', on: true })
  await untilInbox(({ reset, items }) => reset && items[0]?.head === 0, 'the first page')
  await say(session, 'hello')
  await untilInbox(({ reset, unreadTotal }) => !reset && unreadTotal === 1, 'the change')
  await ada.ask({ type: 'read', session, seq: 1 })
  await untilInbox(({ unreadTotal }) => unreadTotal === 0, 'the read position')
  await ada.ask({ type: 'inbox', on: false })
  const before = inboxes().length
  await say(session, 'unseen')
  await ada.ask({ type: 'inbox', on: true, show: 'unread' })
  await untilInbox(({ reset, unreadTotal }) => reset && unreadTotal === 1, 'the new first page')
  assert.equal(inboxes().length, before + 1, 'nothing came while it was off')
})

test('a session that is erased is left, and a request that is no handshake is told what to do', async (t) => {
  const { here } = await twoPods(t)
  const { session } = await makeSession(here.gateway)
  const socket = await socketOn(t, here.gateway)
  await socket.ask({ type: 'join', session })
  await call('DELETE', `${here.gateway}/v1/sessions/${session}`)
  const { code, ...left } = await socket.next('left')
  assert.deepEqual([left.session, code], [session, 'gone'])
  const plain = await fetch(`${here.gateway}/v1/socket`)
  assert.deepEqual([plain.status, /subprotocol fleetline\.v1/.test(await plain.text())], [426, true])
  const other = await refusedHandshake(`${here.gateway}/v1/socket`, { protocols: ['other'] })
  assert.equal(other.status, 400, `without ${SOCKET_PROTOCOL}`)
})
