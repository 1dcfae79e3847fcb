// S8: tickets on PostgreSQL. They are minted over HTTP by a real pod and redeemed by `callers.ts`, as a socket does it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { parseId } from '@fleetline/protocol'
import { take } from '../../src/fleet/pods.ts'
import { createAudit } from '../../src/identity/audit.ts'
import { createCallers } from '../../src/identity/callers.ts'
import { createCuts } from '../../src/identity/cuts.ts'
import { identityDuties } from '../../src/identity/duties.ts'
import { createIssuers } from '../../src/identity/issuers.ts'
import { createKeys } from '../../src/identity/keys.ts'
import { createTenants } from '../../src/identity/tenants.ts'
import { createTickets } from '../../src/identity/tickets.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { valueOf, type Query, type Transactions } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { databaseFor } from '../support/database.ts'
import { call } from '../support/http.ts'
import { keyServer } from '../support/key-server.ts'
import { explaining, type Plan } from '../support/plan.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { openDatabase } from '../support/store.ts'

const GONE = { code: 'unauthenticated', message: /^This ticket is not valid: it is used, or older than 30 s/ }

test('S8: a ticket gives once what its token gives, and only its digest is stored', async (t) => {
  const { pod, key, gateway, rows, mint, callerOf, lines } = await setUp(t)
  const { body: made } = await call('POST', `${gateway}/v1/sessions`, { members: ['ada'] }, key)
  const session = String(made['session'])
  const { token } = await pod.tokens.mint({ user: 'ada', sessions: [session], rights: ['read', 'stop'] })
  const ticket = await mint(token)
  assert.match(ticket, /^[\w-]{43}$/)
  const [row] = await rows<{ text: string; left: number }>(
    'select t::text as text, extract(epoch from expires_at - now())::float8 as left from fleetline.tickets t',
  )
  assert.ok(row!.left > 0 && row!.left <= 30, `${row!.left} s`)
  for (const text of [ticket, Buffer.from(ticket).toString('hex')])
    assert.ok(![row!.text, ...lines].join().includes(text), 'the ticket is neither stored nor logged')

  const { tenant, scopes, key: minter, user } = await callerOf(ticket)
  assert.deepEqual([tenant, scopes.size, minter], [1, 0, null])
  assert.deepEqual([user?.id, [...user!.rights]], ['ada', ['read', 'stop']])
  assert.deepEqual([...user!.sessions!], [parseId('session', session)!.uuid])
  assert.ok(user!.issuedMs < user!.endMs)
  await assert.rejects(callerOf(ticket), GONE)
  assert.deepEqual(await rows('select from fleetline.tickets'), [])
})

test('S8: of requests with one ticket at the same time, one gets in', async (t) => {
  const { as, mint, callerOf, tickets } = await setUp(t)
  for (let n = 0; n < 5; n += 1) {
    const ticket = await mint(await as('ada'))
    const found = await Promise.all(Array.from({ length: 4 }, () => tickets.redeem(ticket)))
    assert.equal(found.filter((one) => one !== undefined).length, 1)
    await assert.rejects(callerOf(ticket), GONE)
  }
})

test('S8: an expired ticket is rejected, and no ticket lives longer than its token', async (t) => {
  const { as, mint, rows, callerOf, tickets } = await setUp(t)
  const ticket = await mint(await as('ada'))
  await rows('update fleetline.tickets set expires_at = now()')
  await assert.rejects(callerOf(ticket), GONE)
  assert.equal((await rows('select from fleetline.tickets')).length, 1, 'the duty deletes it')

  const user = { id: 'ada', rights: new Set(['read'] as const), sessions: undefined, issuedMs: 0 }
  const endMs = Date.now() + 5_000
  const brief = await tickets.mint({ tenant: 1, scopes: new Set(), key: null, user: { ...user, endMs } })
  assert.equal(brief.expiresAt.getTime(), endMs)
})

test('S8 S9: a ticket is worth nothing after its token, the key that minted it, its issuer or its user has ended', async (t) => {
  const { as, pod, gateway, mint, callerOf } = await setUp(t)
  const ofRevoked = await mint(await as('ada'))
  await pod.tokens.revoke('ada')
  await assert.rejects(callerOf(ofRevoked), /The token was revoked, with all tokens of its user/)

  const minter = await pod.keys.create({ tenant: 'dev', name: 'minter', scopes: ['tokens:mint'] })
  const { body } = await call('POST', `${gateway}/v1/tokens`, { user: 'bob' }, minter.key)
  const ofKey = await mint(String(body['token']))
  await pod.keys.revoke(minter.entry.id)
  await assert.rejects(callerOf(ofKey), /minted with a key that has ended. The key \w{12} was revoked/)

  const login = await keyServer(t)
  const claims = { iss: 'https://login.test', aud: 'chat' }
  await pod.issuers.add({
    issuer: claims.iss,
    audience: 'chat',
    name: 'own',
    tenant: 'dev',
    jwksUrl: login.jwksUrl,
  })
  const iat = Math.floor(Date.now() / 1_000)
  const outside = await login.sign({ ...claims, sub: 'cyd', iat, exp: iat + 600 })
  assert.deepEqual((await callerOf(await mint(outside))).user?.issuer?.name, 'own')
  const ofIssuer = await mint(outside)
  await pod.issuers.remove('own')
  await assert.rejects(callerOf(ofIssuer), /Tokens of this issuer are not accepted any more/)

  const ofErased = await mint(await as('dan'))
  await pod.erasures.eraseUser('dan')
  await assert.rejects(callerOf(ofErased), /The token was revoked, with all tokens of its user/)
})

test('S8: a caller without a user gets no ticket, and is told what to send', async (t) => {
  const { key, gateway, rows } = await setUp(t)
  const { status, body } = await call('POST', `${gateway}/v1/tickets`, undefined, key)
  assert.equal(status, 400)
  assert.equal((body['error'] as { code: string }).code, 'invalid')
  assert.match(JSON.stringify(body), /Send the token of the user: authorization: Bearer TOKEN/)
  assert.equal((await call('POST', `${gateway}/v1/tickets`)).status, 401)
  assert.deepEqual(await rows('select from fleetline.tickets'), [])
})

test('expired tickets are deleted in steps, by the leader only and by their index; statistics keep no user', async (t) => {
  const database = await openDatabase(t, await databaseFor(t))
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  await run((query) =>
    query(`insert into fleetline.tickets (expires_at, tenant, digest, caller)
      select now() + case when n <= 2500 then -1 else 20 end * interval '1 second', 1, sha256(n::text::bytea), '{"user":{"id":"ada"}}'
        from generate_series(1, 20000) n`),
  )
  await run((query) => query('analyze fleetline.tickets'))
  const columns = await run((query) =>
    query<{ name: string }>(`select attname as name from pg_stats where tablename = 'tickets' order by 1`),
  )
  assert.deepEqual(
    columns.map(({ name }) => name),
    ['digest', 'expires_at', 'tenant'],
  )
  const count = async () => (await run((query) => query('select from fleetline.tickets'))).length
  const term = await run(async (query) => {
    const [pod] = await query<{ id: number }>(
      `insert into fleetline.pods (name, version) values ('a', '0') returning id`,
    )
    return (await take(query, pod!.id, 0))!
  })
  const dutyOn = (on: Transactions) =>
    identityDuties({ database: on, auditDays: 400 }).find(({ name }) => name === 'old tickets')!
  const duty = dutyOn(database)
  await duty.run({ ...term, term: term.term - 1 }, () => true)
  assert.equal(await count(), 20_000, 'an old term deletes nothing')
  let steps = 0
  await duty.run(term, () => (steps += 1) <= 2)
  assert.equal(await count(), 18_000, 'two steps')
  await duty.run(term, () => true)
  assert.equal(await count(), 17_500)

  const plans: Plan[] = []
  const explained: Transactions = {
    transaction: (work, options) =>
      database.transaction(async (query) => {
        const { query: explain, plans: own } = explaining(query)
        const value = await work(explain)
        plans.push(...own)
        return value
      }, options),
  }
  await dutyOn(explained).run(term, () => true)
  assert.match(plans[0]!.text, /"Index Name": ?"tickets_expires_at_idx"/)
})

/** A pod that lets nobody in without a key or a token. `callerOf` is another pod on its database, which has read nothing yet. */
async function setUp(t: TestContext) {
  const [url, lines] = [await databaseFor(t), [] as string[]]
  const { pod, gateway } = await podOn(t, url, CLOSED, { lines })
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const database = await openDatabase(t, url)
  const [clock, random, metrics] = [systemClock(), systemRandom(), createMetrics()]
  const audit = createAudit({ database, metrics })
  const nothing = () => undefined
  const tickets = createTickets({ database, random })
  const unused = { read: () => assert.fail('no token is sent') }
  const newCallers = () =>
    createCallers({
      keys: createKeys({ database, random, audit, onRevoked: nothing }),
      tokens: unused,
      tickets,
      outside: unused,
      issuers: createIssuers({ database, clock, audit, onChange: nothing }),
      cuts: createCuts({ database, audit }),
      tenants: createTenants({ database, audit }),
      hints: { listen: () => nothing },
      clock,
      metrics,
      isInsecure: false,
      loginRate: 1_000,
    })
  return {
    pod,
    gateway,
    key,
    lines,
    tickets,
    rows: async <Row extends object>(text: string) =>
      valueOf(await database.transaction((query) => query<Row>(text)), 'not run'),
    as: async (user: string) => (await pod.tokens.mint({ user })).token,
    mint: async (token: string) => {
      const { status, body } = await call('POST', `${gateway}/v1/tickets`, undefined, token)
      assert.equal(status, 201, JSON.stringify(body))
      return String(body['ticket'])
    },
    callerOf: (ticket: string) =>
      newCallers().gateway.callerOf({
        authorization: undefined,
        ticket,
        isLocal: false,
        address: '127.0.0.1',
      }),
  }
}
