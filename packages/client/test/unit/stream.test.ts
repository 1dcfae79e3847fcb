// When a device connects again, on a clock that the test moves. A real server on loopback answers as the test tells it.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { test, type TestContext } from 'node:test'
import { atEnd } from '../../../server/test/support/cleanup.ts'
import { manualClock } from '../../../server/test/support/clock.ts'
import { eventually } from '../../../server/test/support/eventually.ts'
import { createHttp } from '../../src/http.ts'
import { standingOf } from '../../src/standing.ts'
import { createStream } from '../../src/stream.ts'
import { createTokens, type TokenSource } from '../../src/tokens.ts'
import { onWake } from '../../src/wake.ts'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const event = (id: string, type: string) => `id: ${id}\ndata: ${JSON.stringify({ type })}\n\n`
/** Sends this text, and then nothing more. */
const saying =
  (text: string): Answer =>
  (_, response) =>
    void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(text)
const ending: Answer = (_, response) =>
  void response.writeHead(200, { 'content-type': 'text/event-stream' }).end()
const refusing =
  (status: number, code: string, retryable?: boolean, retryAfterMs?: number): Answer =>
  (_, response) =>
    void response
      .writeHead(status)
      .end(JSON.stringify({ error: { code, text: 'No.', retryable, retryAfterMs } }))

async function streamOn(t: TestContext, answer: (nth: number) => Answer, token?: TokenSource) {
  const [clock, closing, asked]: [ReturnType<typeof manualClock>, AbortController, string[]] = [
    manualClock(),
    new AbortController(),
    [],
  ]
  const server = createServer((request, response) => {
    asked.push(`${request.url} ${String(request.headers['last-event-id'] ?? '-')}`)
    answer(asked.length)(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const [told, links]: [string[], string[]] = [[], []]
  const tokens = createTokens({ source: token, clock, random: () => 0.5 })
  const standing = standingOf(clock, (connection) => links.push(connection))
  const stream = createStream({
    http: createHttp({ url: `http://127.0.0.1:${port}`, fetch, clock, tokens }),
    clock,
    random: () => 0.5,
    path: () => `/from-${told.length}`,
    place: { cursor: undefined },
    standing,
    take: ({ type }: { readonly type: string }) => told.push(type) > 0 && type !== 'hole',
    onRefused: ({ code }) => links.push(`refused ${code}`),
  })
  const over = stream.run(closing.signal).then(standing.end)
  atEnd(t, async () => {
    server.close()
    server.closeAllConnections()
    closing.abort()
    await over
    assert.equal(clock.sleepers, 0, 'a timer is left')
  })
  const until = (what: string, is: () => unknown) =>
    eventually(() => assert.ok(is()), { what, details: () => JSON.stringify({ asked, told, links }) })
  return { clock, asked, told, links, stream, until, over }
}

test('a stream that was silent for 40 s is opened again half of 250 ms later, after the last event', async (t) => {
  const { clock, asked, told, links, until } = await streamOn(t, (nth) =>
    saying(event(`${nth}`, `event ${nth}`)),
  )
  await until('the first event', () => told.length === 1)
  await clock.advance(39_999)
  assert.equal(asked.length, 1)
  assert.deepEqual(links, ['live'])
  await clock.advance(1)
  await until('the loss', () => links.at(-1) === 'stale')
  await clock.advance(124)
  assert.equal(asked.length, 1)
  await clock.advance(1)
  await until('the second event', () => told.length === 2)
  assert.deepEqual(asked, ['/v1/from-0 -', '/v1/from-1 1'])
  assert.deepEqual(links, ['live', 'stale', 'live'])
})

test('each connection that is lost soon doubles the range of the pause, up to 30 s; after 5 s without one it is offline', async (t) => {
  const { clock, asked, links, until } = await streamOn(t, () => ending)
  for (const [nth, pauseMs] of [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000].entries()) {
    await until(
      'the loss',
      () => asked.length === nth + 1 && links.length === 2 * nth + 2 && clock.sleepers === 2,
    )
    await clock.advance(pauseMs - 1)
    assert.equal(asked.length, nth + 1, `after ${pauseMs - 1} ms`)
    assert.equal(links.at(-1) === 'offline', pauseMs > 5_000, `after ${pauseMs - 1} ms`)
    if (links.at(-1) === 'offline') links.pop()
    await clock.advance(1)
  }
  await until('the ninth', () => asked.length === 9)
})

test('a stream with a missing event begins again at its path, and a failure that may pass is retried', async (t) => {
  const answers = [
    saying(event('1', 'one') + event('2', 'hole') + event('3', 'three')),
    refusing(408, 'invalid', false), // the answer on a connection that was idle
    refusing(404, 'of another server'),
    saying(event('4', 'four')),
  ]
  const { clock, asked, told, until } = await streamOn(t, (nth) => answers[nth - 1]!)
  for (const [nth, pauseMs] of [
    [1, 250],
    [2, 500],
    [3, 1_000],
  ] as const) {
    await until('the pause', () => asked.length === nth && clock.sleepers === 2) // the other timer reports the device offline
    await clock.advance(pauseMs)
  }
  await until('the fourth', () => told.length === 3)
  assert.deepEqual(told, ['one', 'hole', 'four'])
  assert.deepEqual(asked, ['/v1/from-0 -', '/v1/from-2 -', '/v1/from-2 -', '/v1/from-2 -'])
})

test('a stream that is refused is not opened again', async (t) => {
  const { asked, links, over } = await streamOn(t, () => refusing(404, 'not_found', false))
  await over
  assert.equal(asked.length, 1)
  assert.deepEqual(links, ['refused not_found'])
})

const hanging: Answer = () => undefined

test('slow failures make the range grow, too, and a wait that a pod asks for is kept', async (t) => {
  const { clock, asked, until } = await streamOn(t, (nth) =>
    nth < 3 ? hanging : refusing(503, 'unavailable', true, 60_000),
  )
  for (const [nth, pauseMs] of [250, 500].entries()) {
    await until('the request', () => asked.length === nth + 1 && clock.sleepers === (nth === 0 ? 3 : 2))
    await clock.advance(30_000)
    await until('the pause', () => clock.sleepers === 1)
    await clock.advance(pauseMs)
  }
  await until('the third', () => asked.length === 3 && clock.sleepers === 1)
  await clock.advance(59_999)
  assert.equal(asked.length, 3)
  await clock.advance(1)
  await until('the fourth', () => asked.length === 4)
})

test('a stream that is over a rate limit is opened again after the wait that the pod names', async (t) => {
  const { clock, asked, links, until } = await streamOn(t, (nth) =>
    nth === 1 ? refusing(429, 'rate_limited', true, 3_000) : saying(event('1', 'one')),
  )
  await until('the pause', () => asked.length === 1 && clock.sleepers === 2)
  await clock.advance(2_999)
  assert.equal(asked.length, 1)
  await clock.advance(1)
  await until('the stream', () => links.at(-1) === 'live')
  assert.deepEqual(links, ['live'], 'it is not refused')
})

test('a device that wakes up connects at once if it pauses, waits for an answer, or has heard nothing for over 25 s', async (t) => {
  const answers = [ending, hanging]
  const { clock, asked, stream, until } = await streamOn(t, (nth) => answers[nth - 1] ?? saying(':\n\n'))
  await until('the pause', () => asked.length === 1 && clock.sleepers === 2)
  stream.wake()
  await until('the second', () => asked.length === 2)
  stream.wake()
  await until('the third', () => asked.length === 3 && clock.sleepers === 1)
  await clock.advance(30_000)
  stream.wake()
  assert.equal(asked.length, 3, 'the connection may be alive')
  await clock.advance(1)
  stream.wake()
  await until('the fourth', () => asked.length === 4)
})

test('a stream is opened again with the new token, after its last event, and stays live', async (t) => {
  const bearers: unknown[] = []
  const answer =
    (nth: number): Answer =>
    (request, response) => {
      bearers.push(request.headers.authorization)
      saying(event(`${nth}`, `event ${nth}`))(request, response)
    }
  let calls = 0
  const claims = Buffer.from('{"iat":1000,"exp":1030}').toString('base64url')
  const { clock, asked, told, links, until } = await streamOn(t, answer, () => `${(calls += 1)}.${claims}.x`)
  await until('the first event', () => told.length === 1 && clock.sleepers === 2)
  await clock.advance(19_999)
  assert.equal(asked.length, 1)
  await clock.advance(1)
  await until('the second event', () => told.length === 2)
  assert.deepEqual(asked, ['/v1/from-0 -', '/v1/from-1 1'])
  assert.deepEqual(bearers, [`Bearer 1.${claims}.x`, `Bearer 2.${claims}.x`])
  assert.deepEqual(links, ['live'])
})

test('a page is back when it is online, shown again, or visible', () => {
  const [page, document] = [
    new EventTarget(),
    Object.assign(new EventTarget(), { visibilityState: 'hidden' }),
  ]
  let woken = 0
  const ending = new AbortController()
  onWake(() => (woken += 1), ending.signal, Object.assign(page, { document }))
  page.dispatchEvent(new Event('online'))
  page.dispatchEvent(new Event('pageshow'))
  document.dispatchEvent(new Event('visibilitychange'))
  assert.equal(woken, 2)
  document.visibilityState = 'visible'
  document.dispatchEvent(new Event('visibilitychange'))
  assert.equal(woken, 3)
  ending.abort()
  page.dispatchEvent(new Event('online'))
  document.dispatchEvent(new Event('visibilitychange'))
  assert.equal(woken, 3)
})

test('R3: a position that a pod of another release cannot read is forgotten, and the stream begins again', async (t) => {
  const { clock, asked, told, links, until } = await streamOn(t, (nth) =>
    nth === 1
      ? (_, response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' })
          response.end(event('3.1e1', 'one'))
        }
      : nth === 2
        ? refusing(400, 'invalid', false)
        : saying(event('4', 'two')),
  )
  await until('the first event', () => told.length === 1)
  for (const count of [2, 3]) {
    await until('the end', () => clock.sleepers > 0)
    await clock.advance(1_000)
    await until('the next request', () => asked.length >= count)
  }
  await until('the next event', () => told.length === 2)
  assert.deepEqual(asked, ['/v1/from-0 -', '/v1/from-1 3.1e1', '/v1/from-1 -'])
  assert.ok(!links.some((link) => link.startsWith('refused')))
})
