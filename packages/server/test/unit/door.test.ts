// S2, S18, S21: which routes prevent a door from being created, and how a door answers the requests that it refuses.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test, type TestContext } from 'node:test'
import { z } from 'zod'
import { addressOf, isLocal as isLocalRequest } from '../../src/door/address.ts'
import type { Listener } from '../../src/door/stream.ts'
import { openapiOf } from '../../src/door/openapi.ts'
import { refusalSchema } from '../../src/door/refusal.ts'
import { parserOf, route, type Route } from '../../src/door/route.ts'
import { listenFault } from '../../src/door/listen-fault.ts'
import { buildServer, createDoor } from '../../src/door/server.ts'
import { Rejected, Retry } from '../../src/errors.ts'
import type { Credentials, PortCallers } from '../../src/identity/callers.ts'
import type { Principal } from '../../src/identity/principal.ts'
import { createRateLimits, type RateLimits } from '../../src/identity/rate-limits.ts'
import type { Right, Scope } from '../../src/identity/scopes.ts'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { addressesOf } from '../../src/lib/hosts.ts'
import { originsOf, type Origins } from '../../src/lib/origins.ts'
import { atEnd } from '../support/cleanup.ts'
import { CALLER, depsOf } from '../support/door.ts'
import { manualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { sayRaw } from '../support/http.ts'

const ECHO = route({
  method: 'POST',
  path: '/v1/things/:id',
  summary: 'Says what it heard.',
  access: { audience: 'key', tenant: 'caller', scope: 'sessions:write' },
  params: z.object({ id: z.string().max(8) }),
  query: z.object({ limit: z.coerce.number().int().max(10).optional() }),
  body: z.object({ text: z.string() }),
  answers: { 200: { means: 'Heard.', json: z.object({ heard: z.string(), tenant: z.int() }) } },
  handle: ({ params, body, principal }) => ({
    status: 200,
    body: { heard: `${params.id} ${body.text}`, tenant: principal?.tenant, secret: 'does not leave' },
  }),
})

function failing(error: Error): Route {
  return route({
    method: 'GET',
    path: '/v1/failing',
    summary: 'Fails.',
    access: { audience: 'probe', tenant: 'none' },
    answers: { 200: { means: 'Never.', json: z.object({}) } },
    handle: () => Promise.reject(error),
  })
}

type Changed = {
  readonly callers?: PortCallers
  readonly corsOrigins?: Origins
  readonly clock?: Clock
  readonly rateLimits?: Pick<RateLimits, 'countRequest'>
}

function ask(routes: readonly Route[], options: object, lines: string[] = [], changed: Changed = {}) {
  const headers = { host: 'localhost:4400', ...('headers' in options ? (options.headers as object) : {}) }
  const server = buildServer({ ...depsOf(routes, lines), ...changed }, new AbortController().signal)
  return server.inject({ ...options, headers })
}

function callersBy(callerOf: () => Promise<Principal>): Changed {
  return { callers: { callerOf, recheck: async () => undefined } }
}

const POST_ECHO = { method: 'POST', url: '/v1/things/one', payload: { text: 'hello' } }

test('S2: a route with missing or wrong access keeps the door shut, and the error names it', () => {
  const cases: readonly (readonly [access: unknown, reason: RegExp])[] = [
    [undefined, /POST \/v1\/things\/:id does not declare who may call it/],
    [{ tenant: 'none' }, /does not declare who may call it/],
    [{ audience: 'key' }, /does not declare where its tenant comes from/],
    [{ audience: 'admin', tenant: 'none' }, /is for admin, whom this door does not serve/],
    [{ audience: 'probe', tenant: 'caller' }, /takes the tenant of a caller whom nobody knows/],
    [{ audience: 'key', tenant: 'caller' }, /does not declare which scope it needs/],
    [{ audience: 'key', tenant: 'caller', scope: 'operate' }, /needs the scope operate, which no key for it/],
  ]
  for (const [access, reason] of cases) {
    const undeclared = { ...ECHO, access } as Route
    assert.throws(() => createDoor(depsOf([undeclared])), reason)
  }
  assert.throws(() => createDoor(depsOf([ECHO, ECHO])), /is there twice/)
  assert.doesNotThrow(() => createDoor(depsOf([ECHO])))
})

test('a body of another type is rejected with a text that names the right one', async () => {
  for (const type of ['text/plain', 'application/x-www-form-urlencoded']) {
    const answer = await ask([ECHO], { ...POST_ECHO, payload: 'x', headers: { 'content-type': type } })
    assert.match(answer.body, /The body must be application\/json/, type)
  }
})

test('S2: a route that is added outside the table of routes is rejected', () => {
  const server = buildServer(depsOf([ECHO]), new AbortController().signal)
  assert.throws(() => server.get('/v1/back', () => 'open'), /GET \/v1\/back is in no table of routes/)
  assert.throws(() => server.head('/v1/things/:id', () => ''), /HEAD \/v1\/things\/:id is in no table/)
})

test('a handler gets parsed input and the tenant, and only declared fields of its answer are sent', async () => {
  const answer = await ask([ECHO], POST_ECHO)
  assert.equal(answer.statusCode, 200)
  assert.deepEqual(answer.json(), { heard: 'one hello', tenant: 7 })
  assert.match(String(answer.headers['x-request-id']), /^req_[\w-]{16}$/)
})

test('S2: a caller is refused before the body is parsed, and without the scope of the route', async () => {
  const nobody = async () => Promise.reject(new Rejected('unauthenticated', 'who are you'))
  const broken = { ...POST_ECHO, payload: '{', headers: { 'content-type': 'application/json' } }
  const huge = { ...POST_ECHO, payload: { text: 'x'.repeat(2_000) } }
  for (const options of [broken, huge]) {
    const answer = await ask([ECHO], options, [], callersBy(nobody))
    assert.equal(answer.statusCode, 401)
    assert.equal(answer.headers['www-authenticate'], 'Bearer')
  }
  const reader = async () => ({ ...CALLER, scopes: new Set<Scope>(['sessions:read']) })
  const answer = await ask([ECHO], POST_ECHO, [], callersBy(reader))
  assert.equal(answer.statusCode, 403)
  assert.match(answer.body, /The key abc does not have the scope sessions:write/)
  const blind = { has: () => true } as unknown as ReadonlySet<Scope>
  const seesAll = async () => ({ ...CALLER, scopes: blind })
  const mutant = await ask([ECHO], POST_ECHO, [], callersBy(seesAll))
  assert.equal(mutant.statusCode, 200, 'mutant, no scope check: the caller gets in')
})

test('S29: a caller over its limit gets 429 with the wait, before the body is parsed; a probe is not limited', async () => {
  const clock = manualClock()
  const deps = depsOf([ECHO, failing(new Rejected('gone', 'reached'))])
  const rates = { sessionRate: 1, userRate: 1, keyRate: 1, tenantRate: 1_000 }
  const rateLimits = createRateLimits({ ...rates, clock, metrics: deps.metrics })
  const askEcho = (payload: unknown = '{') =>
    ask([ECHO], { ...POST_ECHO, payload, headers: { 'content-type': 'application/json' } }, [], {
      rateLimits,
    })
  for (let n = 0; n < 4; n += 1) assert.equal((await askEcho()).statusCode, 400)
  const answer = await askEcho()
  assert.equal(answer.statusCode, 429)
  assert.equal(answer.headers['retry-after'], '1')
  const { error } = refusalSchema.parse(answer.json())
  assert.deepEqual(
    { ...error, requestId: '' },
    {
      code: 'rate_limited',
      text: 'Callers with this key send too many requests to this pod: at most 1 a second. Wait, then send again',
      retryable: true,
      retryAfterMs: 1_000,
      requestId: '',
    },
  )
  for (let n = 0; n < 6; n += 1)
    assert.equal((await ask(deps.routes, { url: '/v1/failing' }, [], { rateLimits })).statusCode, 410)
  await clock.advance(1_000)
  assert.equal((await askEcho({ text: 'hello' })).statusCode, 200)
  const unlimited = await ask([ECHO], POST_ECHO)
  assert.equal(unlimited.statusCode, 200, 'mutant, no limit: the caller gets in')
})

test('S9: a caller that was revoked while its body arrived gets nothing', async () => {
  const revoked = new Rejected('unauthenticated', 'This key was revoked')
  const callers = { callerOf: async () => CALLER, recheck: () => Promise.reject(revoked) }
  let nowMs = 0
  const slow = { ...systemClock(), monotonicMs: () => (nowMs += 2_000) }
  const late = await ask([ECHO], POST_ECHO, [], { callers, clock: slow })
  assert.equal(late.statusCode, 401)
  const atOnce = await ask([ECHO], POST_ECHO, [], { callers })
  assert.equal(atOnce.statusCode, 200, 'within two seconds, what was read before is enough')
})

test('S32: a caller that resets its connection at once is known by its address, or not answered', async (t) => {
  const seen: string[] = []
  const callerOf = async ({ address }: Credentials) => {
    seen.push(address)
    return CALLER
  }
  const deps = { ...depsOf([ECHO]), callers: { callerOf, recheck: async () => undefined } }
  const door = createDoor(deps)
  atEnd(t, () => door.stop())
  await door.start()
  const text =
    'POST /v1/things/one HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}'
  for (let count = 0; count < 30; count += 1) {
    const socket = connect(door.port(), '127.0.0.1')
    await once(socket, 'connect')
    await new Promise((resolve) => socket.write(text, resolve))
    socket.resetAndDestroy()
  }
  await fetch(`http://127.0.0.1:${door.port()}/v1/things/one`, { method: 'POST' })
  assert.deepEqual([...new Set(seen)], ['127.0.0.1'])
})

test('S21: every refusal has the same shape with a code and a request id, and reveals nothing internal', async () => {
  const canary = new Error('select secret from canary')
  const cases: readonly (readonly [
    routes: readonly Route[],
    options: object,
    status: number,
    code: string,
  ])[] = [
    [[ECHO], { ...POST_ECHO, url: '/v1/things/one-too-long' }, 400, 'invalid'],
    [[ECHO], { ...POST_ECHO, url: '/v1/things/one?limit=11' }, 400, 'invalid'],
    [[ECHO], { ...POST_ECHO, payload: { text: 5 } }, 400, 'invalid'],
    [[ECHO], { ...POST_ECHO, payload: '{', headers: { 'content-type': 'application/json' } }, 400, 'invalid'],
    [
      [ECHO],
      { ...POST_ECHO, payload: '['.repeat(100), headers: { 'content-type': 'application/json' } },
      400,
      'invalid',
    ],
    [[ECHO], { ...POST_ECHO, payload: 'x', headers: { 'content-type': 'text/plain' } }, 400, 'invalid'],
    [[ECHO], { ...POST_ECHO, payload: { text: 'x'.repeat(2_000) } }, 413, 'too_large'],
    [[ECHO], { method: 'GET', url: '/v1/things/one' }, 404, 'not_found'],
    [[ECHO], { method: 'HEAD', url: '/v1/things/one' }, 404, 'not_found'],
    [[ECHO], { method: 'GET', url: '/v1/%' }, 400, 'invalid'],
    [[failing(canary)], { method: 'GET', url: '/v1/failing' }, 500, 'internal'],
    [
      [failing(new Retry('unavailable', 'canary', { afterMs: 1_500 }))],
      { url: '/v1/failing' },
      503,
      'unavailable',
    ],
  ]
  for (const [routes, options, status, code] of cases) {
    const answer = await ask(routes, options)
    assert.equal(answer.statusCode, status, answer.body)
    if (answer.body !== '') assert.equal(refusalSchema.parse(answer.json()).error.code, code)
    assert.ok(!answer.body.includes('canary'), answer.body)
    assert.equal(answer.headers['retry-after'], status === 503 ? '2' : undefined)
  }
})

test('S18: a body that is nested too deep is refused before it is parsed, a body that may be stored is accepted', async () => {
  const nested = (depth: number) => `{"text":"hello","more":${'['.repeat(depth)}${']'.repeat(depth)}}`
  const answerTo = (payload: string) =>
    ask([ECHO], { ...POST_ECHO, payload, headers: { 'content-type': 'application/json' } })
  assert.equal((await answerTo(nested(65))).statusCode, 200)
  for (const body of [nested(100), '['.repeat(1_000)]) {
    const { error } = refusalSchema.parse((await answerTo(body)).json())
    assert.equal(error.code, 'invalid')
    assert.equal(error.text, 'The body is nested deeper than 72.')
  }
})

test('S22: a failure is logged with its request id, and without the content of the request', async () => {
  const lines: string[] = []
  const answer = await ask(
    [failing(new Error('told in the log alone'))],
    { url: '/v1/failing?canary=1' },
    lines,
  )
  const { requestId } = refusalSchema.parse(answer.json()).error
  const failed = lines
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .find(({ level }) => level === 'error')
  assert.equal(failed?.['request_id'], requestId)
  assert.match(JSON.stringify(failed), /told in the log alone/)
  assert.ok(!lines.join('').includes('canary'))
})

test('S25: a caller counts as local only if the request names this machine, comes from no page of another origin, and through no proxy', async () => {
  const seen: boolean[] = []
  const callerOf = async ({ isLocal }: Credentials) => {
    seen.push(isLocal)
    return CALLER
  }
  const isLocal = async (options: object) => {
    const callers = { callerOf, recheck: async () => undefined }
    assert.equal((await ask([ECHO], { ...POST_ECHO, ...options }, [], { callers })).statusCode, 200)
    return seen.at(-1)
  }
  const local: readonly object[] = [
    { headers: { host: 'localhost' } },
    { headers: { host: '127.0.0.1:4410' } },
    { headers: { host: '[::1]:4400' } },
    { headers: { origin: 'http://localhost:3000' } },
    { remoteAddress: '::1' },
    { remoteAddress: '::ffff:127.0.0.1' },
  ]
  for (const options of local) assert.equal(await isLocal(options), true, JSON.stringify(options))
  const elsewhere: readonly object[] = [
    { headers: { host: 'evil.example' } },
    { headers: { host: 'localhost.evil.example:4400' } },
    { headers: { host: '127.0.0.1.evil.example' } },
    { headers: { host: 'evil.example@localhost' } },
    { headers: { origin: 'http://evil.example' } },
    { headers: { origin: 'http://localhost.evil.example' } },
    { headers: { origin: 'null' } },
    { headers: { 'x-forwarded-for': '127.0.0.1' } },
    { headers: { forwarded: 'for=127.0.0.1' } },
    ...['proto', 'host', 'server', 'port', 'prefix', 'new'].map((name) => ({
      headers: { [`x-forwarded-${name}`]: 'https' },
    })),
    ...['x-real-ip', 'via', 'x-client-ip', 'true-client-ip', 'cf-connecting-ip'].map((name) => ({
      headers: { [name]: '127.0.0.1' },
    })),
    { remoteAddress: '192.0.2.7' },
    { remoteAddress: '::ffff:192.0.2.7' },
  ]
  for (const options of elsewhere) assert.equal(await isLocal(options), false, JSON.stringify(options))
  const asOldNginxSends = { socket: { remoteAddress: '127.0.0.1' }, headers: { host: 'localhost:4400' } }
  for (const httpVersion of ['0.9', '1.0', '2.0', ''])
    assert.equal(isLocalRequest({ ...asOldNginxSends, httpVersion }), false, httpVersion)
  assert.equal(isLocalRequest({ ...asOldNginxSends, httpVersion: '1.1' }), true) // nginx from 1.29.7 on is not recognized
})

test('the address of a client is read from x-forwarded-for as far as trusted proxies have written it', () => {
  const trusted = addressesOf('10.0.0.0/8, ::1')!
  const cases: readonly (readonly [socket: string, forwarded: string | undefined, address: string])[] = [
    ['192.0.2.7', undefined, '192.0.2.7'],
    ['192.0.2.7', '198.51.100.1', '192.0.2.7'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['::1', 'made up, 198.51.100.1, 10.1.1.1', '198.51.100.1'],
    ['10.0.0.1', '198.51.100.1, 192.0.2.9', '192.0.2.9'],
    ['10.0.0.1', 'made up', '10.0.0.1'],
    ['10.0.0.1', '198.51.100.1:5000', '198.51.100.1'],
    ['10.0.0.1', '[2001:db8::1]:5000', '2001:db8::1'],
    ['10.0.0.1', '[::ffff:1.2.3.4]:443', '1.2.3.4'],
    ['10.0.0.1', '::ffff:102:304', '1.2.3.4'],
    ['10.0.0.1', 'fe80::1%eth0', 'fe80::1'],
  ]
  for (const [remoteAddress, forwarded, address] of cases) {
    const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
    assert.equal(
      addressOf({ socket: { remoteAddress }, headers }, trusted),
      address,
      `${remoteAddress} ${forwarded}`,
    )
  }
})

test('S36: a page of a listed origin may read answers, after a preflight; no other page, and never with cookies', async () => {
  const corsOrigins = originsOf('https://app.example, loopback')!
  const from = (origin: string, options: object) =>
    ask([ECHO], { ...options, headers: { origin } }, [], { corsOrigins })
  const named = (answer: { headers: object }) =>
    Object.keys(answer.headers).filter((name) => name.startsWith('access-control-'))
  for (const origin of ['https://app.example', 'http://localhost:5173']) {
    const answer = await from(origin, POST_ECHO)
    assert.equal(answer.headers['access-control-allow-origin'], origin)
    assert.equal(answer.headers.vary, 'origin')
    assert.deepEqual(named(answer), ['access-control-allow-origin', 'access-control-expose-headers'])
    for (const [url, status] of [
      ['/v1/nothing', 404],
      ['/v1/%', 400],
    ] as const) {
      const refused = await from(origin, { method: 'GET', url })
      assert.deepEqual([refused.statusCode, refused.headers['access-control-allow-origin']], [status, origin])
    }
  }
  for (const origin of [
    'https://evil.example',
    'http://app.example',
    'https://app.example.evil.example',
    'null',
  ])
    assert.deepEqual(named(await from(origin, POST_ECHO)), [], origin)

  const preflight = (origin: string, origins = corsOrigins) => {
    const headers = {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization',
    }
    return ask([ECHO], { method: 'OPTIONS', url: '/v1/things/one', headers }, [], { corsOrigins: origins })
  }
  const allowed = await preflight('https://app.example')
  assert.equal(allowed.statusCode, 204)
  assert.match(String(allowed.headers['access-control-allow-headers']), /authorization/)
  assert.match(String(allowed.headers['access-control-allow-methods']), /POST/)
  assert.equal(allowed.headers['access-control-max-age'], '600')
  assert.equal(allowed.headers['access-control-allow-credentials'], undefined)
  assert.deepEqual(named(await preflight('https://evil.example')), [])
  assert.deepEqual(named(await preflight('https://app.example', originsOf(''))), [])
  assert.ok(named(await preflight('https://evil.example', originsOf('*'))).length > 0)
  for (const wrong of [
    'app.example',
    'https://app.example/',
    'https://app.example/path',
    'https://*.example',
    'localhost',
  ])
    assert.equal(originsOf(wrong), undefined, wrong)
})

async function openDoor(t: TestContext): Promise<number> {
  const door = createDoor(depsOf([ECHO]))
  atEnd(t, () => door.stop())
  await door.start()
  return door.port()
}

test('S18, S21: broken HTTP and endless headers get an answer of the same shape, and the connection is closed', async (t) => {
  const port = await openDoor(t)
  const cases: readonly (readonly [text: string, status: string, code: string])[] = [
    ['nonsense\r\n\r\n', '400', 'invalid'],
    [`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`, '431', 'too_large'],
  ]
  for (const [text, status, code] of cases) {
    const heard = await sayRaw(port, text)
    assert.ok(heard.startsWith(`HTTP/1.1 ${status} `), heard)
    assert.equal(refusalSchema.parse(JSON.parse(heard.split('\r\n\r\n')[1]!)).error.code, code)
  }
})

test('the error for a port that is in use names the port', async (t) => {
  const port = await openDoor(t)
  const second = createDoor({ ...depsOf([ECHO]), port })
  atEnd(t, () => second.stop())
  const message = new RegExp(`Port ${port} of 127.0.0.1 is in use`)
  await assert.rejects(second.start(), { code: 'invalid', message })
})

test('the error for an address of another machine names the address and the setting', async (t) => {
  const door = createDoor({ ...depsOf([ECHO]), host: '192.0.2.1' })
  atEnd(t, () => door.stop())
  const message = /192\.0\.2\.1 is not an address of this machine: set FLEETLINE_HOST/
  await assert.rejects(door.start(), { code: 'invalid', message })
})

test('the errors of a host that cannot be found or used, and of a port that needs a right, say what to set', () => {
  const at = { host: 'pod.internal', port: 80 }
  for (const code of ['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EINVAL'])
    assert.match(
      listenFault(code, at)!,
      /pod\.internal is not an address of this machine: set FLEETLINE_HOST/,
    )
  assert.match(listenFault('EACCES', at)!, /needs a right to listen on port 80: choose one from 1024 on/)
  assert.equal(listenFault('EMFILE', at), undefined)
})

test('a caller that lacks a scope or a right is told how to get it: without a key, with a token of ours, of another issuer', async () => {
  const times = { issuedMs: 0, endMs: 0, sessions: undefined }
  const user = { id: 'ada', rights: new Set<Right>(['read']), ...times }
  const usersRoute: Route = {
    ...ECHO,
    access: { audience: 'client', tenant: 'caller', scope: 'sessions:write', right: 'create' },
  }
  const cases: readonly (readonly [caller: Partial<Principal>, text: RegExp])[] = [
    [{ key: null }, /Without a key you may not do this\. Use a key that has the scope sessions:write/],
    [{}, /The key abc does not have the scope sessions:write\. Use a key/],
    [{ user }, /The token does not have the right create\. Mint one that has it/],
    [
      { key: null, user: { ...user, issuer: { id: 1, name: 'auth0' } } },
      /the right create\. Tokens of the issuer auth0 have read, send, stop\. Do this with an API key/,
    ],
  ]
  for (const [caller, text] of cases) {
    const principal = { ...CALLER, scopes: new Set<Scope>(), ...caller }
    const answer = await ask(
      [usersRoute],
      POST_ECHO,
      [],
      callersBy(async () => principal),
    )
    assert.equal(answer.statusCode, 403)
    assert.match(answer.body, text)
  }
})

test('a reader whose request has timed out gets no stream, and its source is released', async (t) => {
  const opening = Promise.withResolvers<void>()
  const asked: boolean[] = []
  const slow = route({
    method: 'GET',
    path: '/v1/slow',
    summary: 'Takes longer than it may.',
    access: { audience: 'probe', tenant: 'none' },
    answers: { 200: { means: 'Events.', events: z.object({ type: z.string() }) } },
    handle: async () => {
      await opening.promise
      const body = async function* ({ signal }: Listener) {
        asked.push(signal.aborted)
        yield* []
      }
      return { status: 200, body }
    },
  })
  const lines: string[] = []
  const { limits, ...deps } = depsOf([slow], lines)
  const door = createDoor({ ...deps, limits: { ...limits, requestTimeoutMs: 50 } })
  await door.start()
  atEnd(t, () => door.stop())
  const answer = await fetch(`http://127.0.0.1:${door.port()}/v1/slow`)
  assert.equal(refusalSchema.parse(await answer.json()).error.code, 'unavailable')
  opening.resolve()
  await eventually(() => assert.deepEqual(asked, [true]), { what: 'the source to be released' })
  assert.ok(!lines.some((line) => line.includes('stream failed')), lines.join(''))
})

test('the OpenAPI document describes the parameters of the table of routes', () => {
  const document = openapiOf([ECHO], { title: 'T', version: '1' }) as {
    openapi: string
    paths: Record<string, Record<string, { parameters: { name: string; in: string; required: boolean }[] }>>
  }
  assert.equal(document.openapi, '3.1.0')
  const { parameters } = document.paths['/v1/things/{id}']!['post']!
  assert.deepEqual(
    parameters.map(({ name, in: place, required }) => ({ name, place, required })),
    [
      { name: 'id', place: 'path', required: true },
      { name: 'limit', place: 'query', required: false },
    ],
  )
})

test('an error of a request says in plain words what is wrong with which field', () => {
  const schema = z.strictObject({
    days: z.int().min(1).max(9),
    title: z.string().min(1).max(3).optional(),
    names: z.array(z.string()).min(2).max(3).optional(),
    fields: z.record(z.string(), z.unknown()).optional(),
    show: z.enum(['all', 'unread']).optional(),
    at: z.iso.datetime().optional(),
    own: z.string().min(2, 'is no name').optional(),
  })
  const cases = [
    [undefined, 'body: is missing'],
    [{}, 'body.days: is missing'],
    [{ days: 1.5 }, 'body.days: must be a whole number'],
    [{ days: 0 }, 'body.days: must be at least 1'],
    [{ days: 10 }, 'body.days: must be at most 9'],
    [{ days: 1, title: 1 }, 'body.title: must be text'],
    [{ days: 1, title: '' }, 'body.title: is empty'],
    [{ days: 1, title: 'long' }, 'body.title: is longer than 3 characters'],
    [{ days: 1, names: {} }, 'body.names: must be a list'],
    [{ days: 1, names: ['a'] }, 'body.names: has fewer than 2 entries'],
    [{ days: 1, names: Array(4).fill('a') }, 'body.names: has more than 3 entries'],
    [{ days: 1, fields: [1] }, 'body.fields: must be an object'],
    [{ days: 1, show: 'foo' }, 'body.show: must be one of all, unread'],
    [{ days: 1, at: 'noon' }, 'body.at: must be a time, such as 2026-01-31T12:00:00Z'],
    [{ days: 1, own: 'a' }, 'body.own: is no name'],
    [{ days: 1, hours: 2 }, 'body: has unknown fields: hours'],
  ] as const
  const two = parserOf(z.object({ turn: z.string(), epoch: z.int() }), 'body')({})
  assert.equal(two.error?.message, 'body.turn: is missing; body.epoch: is missing')
  for (const [value, text] of cases) {
    const parsed = parserOf(schema, 'body')(value)
    assert.equal('error' in parsed && parsed.error.message, text)
  }
})
