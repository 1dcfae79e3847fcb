// What a user may do with a token, over HTTP. S8: a token opens the sessions of its user. S9: it ends on every pod. S23: what a
// user does not see.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Item, Session, Turn } from '@fleetline/protocol'
import { agent } from '../../src/index.ts'
import { AGENTS } from '../../src/cli/agents.ts'
import { ISSUERS } from '../../src/cli/issuers.ts'
import { TOKENS } from '../../src/cli/tokens.ts'
import { valueOf } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { deafPodOn } from '../support/deaf-pod.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { keyServer } from '../support/key-server.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { readEvents, untilSeq } from '../support/reader.ts'
import { openDatabase } from '../support/store.ts'
import { typing } from '../support/terminal.ts'

const ADMIN = { tenant: 'dev', name: 'admin', scopes: ['agents:read', 'agents:write'] }
/** Headers by which proxies and other servers name a caller. */
const FORGED = {
  'x-fleetline-tenant': 'other',
  'x-fleetline-user': 'bob',
  'x-tenant': 'other',
  'x-tenant-id': 'other',
  'x-user': 'bob',
  'x-user-id': 'bob',
  'x-role': 'system',
  'x-forwarded-user': 'bob',
  'x-remote-user': 'bob',
  'x-forwarded-for': '203.0.113.9',
  forwarded: 'for=203.0.113.9;by=other',
  from: 'bob@other',
  cookie: 'user=bob; tenant=other',
  'x-http-method-override': 'DELETE',
}
const FAILING = agent('failing', () => {
  throw new Error('see https://agent.internal/')
})

test('S8: a message bears the name of the token’s user and its tenant, whatever body, metadata, headers and query say', async (t) => {
  const { as, at, key, url, pod, gateway } = await setUp(t)
  await pod.tenants.create('other')
  const database = await openDatabase(t, url)
  const forged = { author: 'bob', user: 'bob', sub: 'bob', role: 'system', tenant: 'other', ten: 'other' }
  const message = { parts: [{ type: 'text', text: 'hello', ...forged }], metadata: forged }
  const body = { message: { ...forged, ...message, role: 'user', id: 'user-1' }, ...forged }
  const query = `?${new URLSearchParams(forged).toString()}`
  const send = async (token: string, sent: object) => {
    const headers = { ...FORGED, authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify(sent) }
    return (await fetch(`${at}/messages${query}`, init)).status
  }
  assert.equal(await send(await as('ada'), body), 200)
  assert.equal(await send(key, { ...body, message: { ...body.message, id: 'key-1' }, author: 'cyd' }), 200)
  for (const role of ['assistant', 'system']) {
    const { status, body: refusal } = await call(
      'POST',
      `${at}/messages`,
      { message: { ...message, role } },
      await as('ada'),
    )
    assert.equal(status, 403)
    assert.match(JSON.stringify(refusal), /a user sends messages of the role user/)
  }
  const items = await itemsOf(at, await as('bob'))
  assert.deepEqual(
    items.map(({ role, author }) => ({ role, author })),
    [
      { role: 'user', author: { kind: 'user', id: 'ada' } },
      { role: 'user', author: { kind: 'user', id: 'cyd' } }, // a key writes as anybody, in its tenant
    ],
  )
  const made = await call('POST', `${gateway}/v1/sessions${query}`, { tenant: 'other' }, key)
  assert.equal(made.status, 201)
  const outcome = await database.transaction((run) =>
    run(`select distinct t.name from fleetline.tenants t
           join (select tenant from fleetline.messages union all select tenant from fleetline.sessions) r on r.tenant = t.id`),
  )
  assert.deepEqual(valueOf(outcome, 'not read'), [{ name: 'dev' }])
  for (const field of ['tenant', 'ten', 'key', 'iss'])
    assert.equal(
      (await call('POST', `${gateway}/v1/tokens`, { user: 'ada', [field]: 'other' }, key)).status,
      400,
    )
})

test('S8: a user who is not a member, or whose token lacks the right, gets nothing', async (t) => {
  const { as, at, pod } = await setUp(t)
  assert.equal((await call('GET', at, undefined, await as('eve'))).status, 404)
  assert.equal((await call('GET', `${at}/messages`, undefined, await as('eve'))).status, 404)
  assert.equal((await call('POST', `${at}/messages`, { text: 'x' }, await as('eve'))).status, 404)
  const { token } = await pod.tokens.mint({ user: 'ada', rights: ['read'] })
  const denied = await call('POST', `${at}/messages`, { text: 'x' }, token)
  assert.equal(denied.status, 403)
  assert.match(JSON.stringify(denied.body), /does not have the right send/)
  assert.deepEqual(await itemsOf(at, token), [])
  await assert.rejects(pod.tokens.mint({ user: 'ada', sessions: ['nothing'] }), { code: 'not_found' })
  await assert.rejects(pod.tokens.mint({ user: 'ada', seconds: 601 }), { code: 'invalid' })
})

test('S23: a user sees neither the text of system messages, nor why an agent failed, nor the name of a pod', async (t) => {
  const { as, at, key, gateway } = await setUp(t, { agents: [FAILING] })
  const system = {
    id: 's-1',
    role: 'system',
    parts: [{ type: 'text', text: 'You are secret' }],
    metadata: { secret: 1 },
  }
  await call('POST', `${at}/messages`, { message: system }, key)
  const { body: ack } = await call('POST', `${at}/messages`, { text: 'hello' }, await as('ada'))
  const turnAt = `${gateway}/v1/turns/${String(ack['turn'])}`
  const asKey = async () => (await call('GET', turnAt, undefined, key)).body as Turn
  await eventually(async () => assert.equal((await asKey()).state, 'failed'), { what: 'the turn to fail' })
  assert.match((await asKey()).error!.message, /agent/)

  const headers = { authorization: `Bearer ${await as('ada')}` }
  const stream = await readEvents(t, `${at}/events?epoch=1`, headers)
  await eventually(() => assert.ok(stream.frames.some(({ type }) => type === 'turn')), { what: 'the turn' })
  stream.cut()
  const seen = {
    items: await itemsOf(at, await as('ada')),
    turn: (await call('GET', turnAt, undefined, await as('ada'))).body as Turn,
    frames: stream.frames,
  }
  assert.deepEqual(seen.items[0]!.parts, [])
  assert.equal(seen.items.length, 2, 'seqs have no gaps')
  assert.equal(seen.turn.error?.message, 'The reply has failed.')
  const text = JSON.stringify(seen)
  for (const hidden of ['You are secret', '"secret"', 'agent.internal', (await asKey()).error!.message])
    assert.ok(!text.includes(hidden), hidden)
  assert.ok(!/"pod":"/.test(text), 'no name of a pod')
})

test('S9: what is revoked on one pod ends streams and requests on another that gets no hints, and the last event says why', async (t) => {
  const url = await databaseFor(t)
  const deaf = await deafPodOn(t, url, CLOSED)
  const { as, at, key, pod, session } = await setUp(t, { url })
  const events = `${deaf.gateway}/v1/sessions/${session}/events`
  const reader = await pod.keys.create({ tenant: 'dev', name: 'reader' })
  const minter = await pod.keys.create({ tenant: 'dev', name: 'minter', scopes: ['tokens:mint'] })
  const minted = await call('POST', `${deaf.gateway}/v1/tokens`, { user: 'bob' }, minter.key)
  const login = await keyServer(t)
  const claims = { issuer: 'https://login.test', audience: 'chat' }
  await pod.issuers.add({ ...claims, name: 'own', tenant: 'dev', jwksUrl: login.jwksUrl })
  const iat = Math.floor(Date.now() / 1_000)
  const shown = {
    user: await as('ada'),
    minter: String(minted.body['token']),
    member: await as('cyd'),
    issuer: await login.sign({ iss: claims.issuer, aud: 'chat', sub: 'bob', iat, exp: iat + 600 }),
    key: reader.key,
  }
  const names = Object.keys(shown) as (keyof typeof shown)[]
  const streams = await Promise.all(
    names.map(async (name) => readEvents(t, events, { authorization: `Bearer ${shown[name]}` })),
  )
  const other = await readEvents(t, events, { authorization: `Bearer ${key}` })

  await pod.issuers.remove('own')
  await pod.tokens.revoke('ada')
  await pod.keys.revoke(minter.entry.id)
  await pod.keys.revoke(reader.entry.id)
  await call('DELETE', `${at}/members/cyd`, undefined, key)
  const revoked = {
    user: [401, 'unauthenticated', /^The token was revoked, with all tokens of its user. Get a new one$/],
    minter: [401, 'unauthenticated', /minted with a key that has ended. The key \w{12} was revoked/],
    member: [404, 'not_found', /^There is no such session, or it is not yours.$/],
    issuer: [401, 'unauthenticated', /^Tokens of this issuer are not accepted any more$/],
    key: [401, 'unauthenticated', new RegExp(`^The key ${reader.entry.id} was revoked`)],
  } as const
  for (const [n, name] of names.entries()) {
    const [status, code, text] = revoked[name]
    assert.ok(await streams[n]!.ended, name)
    assert.equal(streams[n]!.why()?.code, code, name)
    assert.match(streams[n]!.why()?.text ?? '', text, name)
    const again = await call('GET', `${deaf.gateway}/v1/sessions/${session}`, undefined, shown[name])
    assert.equal(again.status, status, name)
  }
  await call('POST', `${deaf.gateway}/v1/sessions/${session}/messages`, { text: 'after the cut' }, key)
  await untilSeq(other, 1)
  assert.deepEqual(
    streams.map(({ items }) => items),
    names.map(() => []),
    'nothing was sent after the cut, and the stream of another key goes on',
  )
  assert.equal(
    (await call('GET', at, undefined, await as('ada'))).status,
    200,
    'a token that was minted later is valid',
  )
})

test('S8: a user with the right create makes sessions of its own, with the default agent, and chooses only the title', async (t) => {
  const { as, pod, gateway, key } = await setUp(t, { agents: [FAILING] })
  const make = async (body: object, token: string) => call('POST', `${gateway}/v1/sessions`, body, token)
  const { token } = await pod.tokens.mint({ user: 'ada', rights: ['read', 'send', 'create'] })
  assert.equal((await make({}, await as('ada'))).status, 403, 'without the right')
  const without = await make({}, token)
  assert.equal(without.status, 409)
  assert.match(JSON.stringify(without.body), /fleetline agents default NAME/)

  const flags = { apiUrl: gateway, apiKey: (await pod.keys.create(ADMIN)).key }
  const agents = typing(AGENTS, 'agents')
  const shown = async (args: string[], options = {}) =>
    (await agents({ flags }, 'default', args, options)).out
  assert.match((await agents({ flags }, 'default', ['nobody'])).err, /there is no agent nobody/)
  assert.equal(await shown(['failing']), 'name\tdev\ndefaultAgent\tfailing\n')
  assert.equal(await shown([]), await shown(['failing']))
  const { status, body: made } = await make({ title: 'Mine' }, token)
  assert.deepEqual([status, made['agent'], made['title'], made['alias']], [201, 'failing', 'Mine', null])
  const at = `${gateway}/v1/sessions/${String(made['session'])}`
  assert.deepEqual((await call('GET', `${at}/members`, undefined, key)).body, { members: [{ user: 'ada' }] })
  assert.equal((await call('POST', `${at}/messages`, { text: 'hello' }, token)).status, 200)
  assert.equal((await call('GET', at, undefined, await as('bob'))).status, 404)

  for (const body of [{ alias: 'talk' }, { agent: 'failing' }, { members: ['bob'] }])
    assert.equal((await make(body, token)).status, 403, JSON.stringify(body))
  await assert.rejects(pod.tokens.mint({ user: 'ada', sessions: ['talk'], rights: ['create'] }), {
    code: 'invalid',
    message: /cannot create others/,
  })
  assert.match(await shown([], { none: true }), /defaultAgent\t(?:null)?\n/)
  assert.equal((await make({}, token)).status, 409)
})

test('S7 S9: users of another issuer are users of its tenant, as members, until it is removed', async (t) => {
  const { at, pod, url, session } = await setUp(t)
  const login = await keyServer(t)
  const issuers = typing(ISSUERS, 'issuers')
  const flags = { databaseUrl: url }
  const claims = { issuer: 'https://login.test', audience: 'chat', jwksUrl: login.jwksUrl }
  const add = (options: object) =>
    issuers({ flags }, 'add', ['own'], { tenant: 'dev', ...claims, ...options })
  for (const [options, fault] of [
    [{ tenant: 'nobody' }, /There is no tenant nobody/],
    [{ issuer: 'fleetline' }, /issuer: must be/],
    [{ issuer: 'notaurl', jwksUrl: undefined }, /issuer: must be a URL, .* unless jwksUrl says/],
    [{ issuer: 'https://user:password@login.test' }, /issuer: must be without a user and a password\n$/],
    [{ jwksUrl: 'http://login.test/keys' }, /jwksUrl: must be an https URL/],
    [{ algorithms: 'HS256' }, /algorithms: use some of EdDSA, ES256, RS256/],
    [{ maxAge: '2d' }, /maxAgeSeconds: use a whole number/],
    [{ audience: undefined }, /Give --audience/],
  ] as const)
    assert.match((await add(options)).err, fault)
  assert.equal((await add({})).code, 0)
  assert.equal((await add({})).code, 0, 'again')
  assert.match((await add({ maxAge: '1h' })).err, /There is an issuer own with other settings/)
  assert.match(
    (await issuers({ flags }, 'ls')).out,
    /^own\tdev\thttps:\/\/login.test\tchat\t.*\thttp:\/\/127\.0\.0\.1:\d+\/\S*\t/,
  )
  await assert.rejects(
    pod.issuers.add({ ...claims, name: 'twice', tenant: 'dev' }),
    /accepts tokens of https/,
  )

  const iat = Math.floor(Date.now() / 1_000)
  const tokenOf = (sub: string) => login.sign({ iss: claims.issuer, aud: 'chat', sub, iat, exp: iat + 600 })
  const ada = await tokenOf('ada')
  await eventually(async () => assert.equal((await call('GET', at, undefined, ada)).status, 200), {
    what: 'the issuer on the pod',
  })
  assert.equal((await call('POST', `${at}/messages`, { text: 'hello', author: 'bob' }, ada)).status, 200)
  assert.deepEqual((await itemsOf(at, ada))[0]!.author, { kind: 'user', id: 'ada' })
  assert.equal((await call('GET', at, undefined, await tokenOf('eve'))).status, 404)
  assert.equal((await call('POST', at.replace(`/${session}`, ''), {}, ada)).status, 403, 'it creates nothing')
  assert.equal((await call('PUT', `${at}/members/eve`, undefined, ada)).status, 403)

  const stream = await readEvents(t, `${at}/events`, { authorization: `Bearer ${ada}` })
  assert.equal((await issuers({ flags }, 'rm', ['own'])).code, 0)
  assert.ok(await stream.ended)
  assert.equal(stream.why()?.text, 'Tokens of this issuer are not accepted any more')
  assert.equal((await call('GET', at, undefined, ada)).status, 401)
  assert.equal((await issuers({ flags }, 'rm', ['own'])).code, 3)
})

test('fleetline token prints a token that works, and fleetline tokens revoke ends it', async (t) => {
  const { at, key, gateway } = await setUp(t)
  const [token, tokens] = [typing(TOKENS, ''), typing(TOKENS, 'tokens')]
  const flags = { apiUrl: gateway, apiKey: key }
  const { out } = await token({ flags }, 'token', [], {
    user: 'ada',
    rights: 'read',
    sessions: 'talk',
    seconds: '60',
  })
  assert.match(out, /^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  assert.equal((await call('GET', at, undefined, out.trim())).status, 200)
  assert.match((await tokens({ flags }, 'revoke', [], { user: 'ada' })).out, /^user\tada\nrevokedAt\t2/)
  await eventually(async () => assert.equal((await call('GET', at, undefined, out.trim())).status, 401), {
    what: 'the token to be rejected',
  })
  const write = await token({ flags }, 'token', [], { user: 'ada', rights: 'read,write' })
  assert.match(write.err, /--rights: write is not a right\. The rights are read, send, stop, create\n/)
  const nobody = await token({ flags }, 'token', [], {})
  assert.deepEqual([nobody.code, nobody.err], [2, 'fleetline: Name the user: --user ID\n'])
})

type Parts = NonNullable<Parameters<typeof podOn>[3]> & { readonly url?: string }

/** A pod that lets nobody in without a key or a token, and a session of ada, bob and cyd. */
async function setUp(t: TestContext, { url: known, ...parts }: Parts = {}) {
  const url = known ?? (await databaseFor(t))
  const { pod, gateway } = await podOn(t, url, CLOSED, parts)
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const agent = parts.agents?.[0]?.name
  const wanted = { alias: 'talk', members: ['ada', 'bob', 'cyd'], ...(agent !== undefined && { agent }) }
  const { session } = (await call('POST', `${gateway}/v1/sessions`, wanted, key)).body as Session
  return {
    url,
    pod,
    gateway,
    key,
    session,
    at: `${gateway}/v1/sessions/${session}`,
    as: async (user: string) => (await pod.tokens.mint({ user })).token,
  }
}

async function itemsOf(at: string, token: string): Promise<readonly Item[]> {
  return (await call('GET', `${at}/messages`, undefined, token)).body['items'] as Item[]
}
