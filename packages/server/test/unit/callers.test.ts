// S6, S9: how long a pod trusts what it has read about a key, and whom it lets in without one. S8: tickets. S29: failed logins.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCallers } from '../../src/identity/callers.ts'
import { digestOf, mintKey } from '../../src/identity/key-text.ts'
import type { StoredKey } from '../../src/identity/keys.ts'
import { Retry } from '../../src/errors.ts'
import { systemRandom } from '../../src/lib/random.ts'
import type { Principal } from '../../src/identity/principal.ts'
import type { HintListener } from '../../src/store/hints.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { manualClock } from '../support/clock.ts'

/** Only its issuer is read here; `tokens.ts` verifies the rest. */
const OWN = `e30.${Buffer.from('{"iss":"fleetline"}').toString('base64url')}.x`
const LONG = 365 * 86_400_000
const HERE = '127.0.0.1'
const TICKET = 'tick-et_'.repeat(6).slice(0, 43)

test('S9: a key that is revoked is rejected 2.5 s later without a hint, and at once with one', async () => {
  const { clock, change, ask, hint } = await setUp()
  assert.deepEqual([...(await ask()).scopes], ['sessions:read'])
  change({ isRevoked: true })
  await clock.advance(2_499)
  hint('poll')
  assert.equal((await ask()).tenant, 7, 'a poll does not make it read again')
  await clock.advance(1)
  await assert.rejects(ask, { code: 'unauthenticated', message: /was revoked/ })

  change({ isRevoked: false })
  hint('hint')
  await ask()
  change({ isRevoked: true })
  hint('reconnect')
  await assert.rejects(ask, /was revoked/)
})

test('S6: a key expires to the millisecond, also while a pod remembers it', async () => {
  const { clock, change, ask } = await setUp()
  change({ leftMs: 2_000 })
  await ask()
  await clock.advance(1_999)
  await ask()
  await clock.advance(1)
  await assert.rejects(ask, { code: 'unauthenticated', message: /expired at/ })
})

test('a key is read once for all requests at the same time; a key that was missing or could not be read, again', async () => {
  const { ask, reads } = await setUp()
  await Promise.all([ask(), ask(), ask()])
  assert.equal(reads(), 1)
  const other = await setUp()
  other.change(new Error('no database'))
  await assert.rejects(other.ask, /no database/)
  other.change(undefined)
  await assert.rejects(other.ask, { code: 'unauthenticated', message: /no such key/ })
  other.change({})
  await other.ask()
  assert.equal(other.reads(), 3)
})

test('S9: a hint that comes during a read makes the next request read again', async () => {
  const { change, ask, hint, hold, reads } = await setUp()
  const release = hold()
  const first = ask()
  hint('hint')
  change({ isRevoked: true })
  await assert.rejects(ask, /was revoked/)
  release()
  assert.equal((await first).tenant, 7, 'the first request was under way before')
  await assert.rejects(ask, /was revoked/)
  assert.equal(reads(), 2)
})

test('S9: a read that took longer than 5 s proves nothing', async () => {
  const { clock, ask, hold } = await setUp()
  const release = hold()
  const slow = ask()
  await clock.advance(5_000)
  release()
  await assert.rejects(slow, { code: 'unavailable' })
})

test('during an outage the operator’s port lets in a key that was live 15 minutes ago, the other port nobody', async () => {
  const { clock, change, ask, askAdmin } = await setUp()
  await ask()
  change(new Retry('unavailable', 'no database'))
  await clock.advance(15 * 60_000 - 1)
  assert.equal((await askAdmin()).tenant, 7)
  await assert.rejects(ask, { code: 'unavailable' })
  await clock.advance(1)
  await assert.rejects(askAdmin, { code: 'unavailable' })
})

test('only an insecure pod lets in callers without a key, only from its own machine, and never with a wrong one', async () => {
  const nobody = { authorization: undefined, isLocal: true, address: HERE }
  const [secure, insecure] = [await setUp(), await setUp({ isInsecure: true })]
  await assert.rejects(secure.callers.gateway.callerOf(nobody), { code: 'unauthenticated' })
  const caller = await insecure.callers.gateway.callerOf(nobody)
  assert.equal(caller.tenant, 1)
  assert.ok(!caller.scopes.has('operate'))
  const operator = await insecure.callers.admin.callerOf(nobody)
  assert.equal(operator.tenant, null)
  assert.deepEqual(
    [...operator.scopes],
    ['operate', 'admin:read', 'pods:write'],
    'it drains pods, and creates no keys',
  )
  const remote = { authorization: undefined, isLocal: false, address: HERE }
  await assert.rejects(insecure.callers.gateway.callerOf(remote), {
    code: 'unauthenticated',
    message: /only from its own machine: to localhost, in HTTP\/1\.1, .* and not through a proxy/,
  })
  const wrong = { authorization: 'Bearer wrong', isLocal: true, address: HERE }
  await assert.rejects(insecure.callers.gateway.callerOf(wrong), { code: 'unauthenticated' })
})

test('S9: a token ends when it expires, when its user’s tokens are revoked, and with the key that has minted it', async () => {
  const { callers, clock, change, cut, askAsUser, hint } = await setUp()
  const user = await askAsUser()
  assert.deepEqual([user.tenant, user.user?.id, user.scopes.size], [7, 'ada', 0])
  const recheck = () => callers.gateway.recheck(user)
  await recheck()
  change({ isRevoked: true })
  hint('hint')
  await assert.rejects(recheck, {
    code: 'unauthenticated',
    message: /minted with a key that has ended.*was revoked/,
  })
  await assert.rejects(askAsUser, /was revoked/)
  change({})
  hint('hint')
  await recheck()
  cut(clock.now() - 1)
  await recheck()
  cut(clock.now())
  await assert.rejects(recheck, { code: 'unauthenticated', message: /revoked, with all tokens of its user/ })
  cut(0)
  await clock.advance(59_999)
  await recheck()
  await clock.advance(1)
  await assert.rejects(recheck, { code: 'unauthenticated', message: /has expired/ })
})

test('S8: a ticket gives once what its token gives; a used, unknown or ill-formed one is rejected', async () => {
  const { askAsUser, askWithTicket, addTicket } = await setUp()
  const user = await askAsUser()
  addTicket(TICKET, user)
  assert.deepEqual(await askWithTicket(TICKET), user)
  const text = 'This ticket is not valid: it is used, or older than 30 s. Get a new one: POST /v1/tickets'
  const unknown = { code: 'unauthenticated', message: text, fields: { reason: 'unknown', caller: undefined } }
  await assert.rejects(askWithTicket(TICKET), unknown)
  for (const wrong of ['', TICKET.slice(1), `${TICKET}a`, `${TICKET.slice(1)}\n`, `${TICKET.slice(1)}=`]) {
    const other = await setUp()
    await assert.rejects(other.askWithTicket(wrong), {
      code: 'unauthenticated',
      message: 'The ticket is not well formed. Get a new one: POST /v1/tickets',
      fields: { reason: 'malformed', caller: undefined },
    })
    assert.equal(other.redeemed(), 0, 'it is not looked up')
  }
})

test('S8: a ticket ends with its token, and an insecure pod lets nobody in with a wrong one', async () => {
  const { askAsUser, askWithTicket, addTicket, cut, clock } = await setUp({ isInsecure: true })
  const user = await askAsUser()
  addTicket(TICKET, user)
  cut(clock.now())
  await assert.rejects(askWithTicket(TICKET), {
    code: 'unauthenticated',
    message: /revoked, with all tokens of its user/,
  })
  await assert.rejects(askWithTicket(TICKET), { message: /This ticket is not valid/ }, 'it is used up')
  cut(0)
  addTicket(TICKET, user)
  await clock.advance(60_000)
  await assert.rejects(askWithTicket(TICKET), { code: 'unauthenticated', message: /has expired/ })
})

test('S8: a ticket is not looked up if the request has a key or a token', async () => {
  const { ask, askAsUser, addTicket, askWithTicket, callers, text } = await setUp()
  addTicket(TICKET, await askAsUser())
  const both = { authorization: `Bearer ${text}`, ticket: TICKET, isLocal: false, address: HERE }
  assert.deepEqual(await callers.gateway.callerOf(both), await ask())
  assert.equal((await askWithTicket(TICKET)).user?.id, 'ada', 'it is still there')
})

test('S29: after too many failed logins from an address, no ticket of it is looked up, and none is used up', async () => {
  const { askAsUser, askWithTicket, addTicket, redeemed, clock } = await setUp()
  addTicket(TICKET, await askAsUser())
  for (let n = 0; n < 3; n += 1)
    await assert.rejects(askWithTicket('a'.repeat(43)), { code: 'unauthenticated' })
  const before = redeemed()
  await assert.rejects(askWithTicket(TICKET), { code: 'rate_limited' })
  assert.equal(redeemed(), before)
  await clock.advance(20_000)
  assert.equal((await askWithTicket(TICKET)).user?.id, 'ada')
})

test('S6: a key has 256 random bits of letters and digits behind its id', () => {
  const random = systemRandom()
  const texts = Array.from({ length: 500 }, () => mintKey('live', random).text)
  for (const text of texts) assert.match(text, /^fl_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}$/)
  assert.equal(new Set(texts).size, 500)
  assert.equal(
    new Set(texts.join('').replaceAll(/fl_live_|_/g, '')).size,
    62,
    'every letter and digit occurs',
  )
})

test('S29: after too many failed logins from an address, a pod reads no unknown key for it; live keys and valid tokens are let in', async () => {
  const { clock, ask, askAsUser, askWith, reads } = await setUp()
  await ask()
  const guess = (address = HERE) => askWith(mintKey('live', systemRandom()).text, address)
  for (let n = 0; n < 3; n += 1) await assert.rejects(guess(), { code: 'unauthenticated' })
  const before = reads()
  await assert.rejects(guess(), {
    code: 'rate_limited',
    message:
      'Too many logins from this address have failed on this pod: at most 3 a minute. Wait, then send again',
    fields: { reason: 'limited', retryAfterMs: 20_000 },
  })
  await assert.rejects(askWith('Basic', HERE), { code: 'rate_limited' })
  assert.equal(reads(), before, 'no database read')
  await ask()
  await askAsUser()
  await assert.rejects(guess('10.0.0.1'), { code: 'unauthenticated' }, 'another address')
  await clock.advance(19_999)
  await assert.rejects(guess(), { code: 'rate_limited' })
  await clock.advance(1)
  await assert.rejects(guess(), { code: 'unauthenticated' })
  await assert.rejects(guess(), { code: 'rate_limited' })
})

test('S29: the id of a live key without its secret is a failed login', async () => {
  const { ask, askWith, reads, text, clock } = await setUp()
  await ask()
  const wrong = `${text.slice(0, -1)}${text.endsWith('a') ? 'b' : 'a'}`
  for (let n = 0; n < 3; n += 1) await assert.rejects(askWith(wrong), { code: 'unauthenticated' })
  await clock.advance(5_000)
  const before = reads()
  await assert.rejects(askWith(wrong), { code: 'rate_limited' })
  assert.equal(reads(), before)
  await ask()
})

test('S29: a caller without a key, or with one that has ended, does not count as guessing', async () => {
  const { callers, ask, change, askWith } = await setUp()
  change({ isRevoked: true })
  for (let n = 0; n < 9; n += 1) {
    const nobody = callers.gateway.callerOf({ authorization: undefined, isLocal: false, address: HERE })
    await assert.rejects(nobody, { code: 'unauthenticated' })
    await assert.rejects(ask, /was revoked/)
  }
  change({})
  await assert.rejects(askWith('wrong'), { code: 'unauthenticated' })
})

test('S29: another address of the same IPv6 network does not help', async () => {
  const { askWith } = await setUp()
  for (let n = 1; n <= 3; n += 1)
    await assert.rejects(askWith('wrong', `2001:db8::${n}`), { code: 'unauthenticated' })
  await assert.rejects(askWith('wrong', '2001:db8::4'), { code: 'rate_limited' })
  await assert.rejects(askWith('wrong', '2001:db8:0:1::4'), { code: 'unauthenticated' })
})

test('S29: guesses that come at once read at most 100 keys; callers that share a key are all let in', async () => {
  const { ask, askWith, hold, reads } = await setUp()
  const releases = Array.from({ length: 100 }, () => hold())
  const guesses = Array.from({ length: 300 }, () => askWith(mintKey('live', systemRandom()).text))
  const settled = Promise.allSettled(guesses)
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(reads(), 100)
  releases.forEach((release) => release())
  const codes = (await settled).map((one) => (one.status === 'rejected' ? codeOf(one.reason) : 'done'))
  assert.equal(codes.filter((code) => code === 'unauthenticated').length, 3)
  assert.equal(codes.filter((code) => code === 'rate_limited').length, 297)

  const other = await setUp()
  const release = other.hold()
  const all = Array.from({ length: 300 }, () => other.ask())
  release()
  assert.equal((await Promise.all(all)).length, 300)
  await assert.rejects(
    ask,
    { code: 'rate_limited' },
    'a pod that has not read this key does not know that it is live',
  )
})

function codeOf(error: unknown): string {
  return (error as { readonly code: string }).code
}

async function setUp({ isInsecure = false } = {}) {
  const clock = manualClock()
  const { id, text } = mintKey('live', systemRandom())
  const usual: StoredKey = {
    id,
    tenant: 7,
    digest: digestOf(text),
    scopes: ['sessions:read'],
    isRevoked: false,
    expiresAt: new Date(clock.now() + LONG),
    leftMs: LONG,
  }
  let [stored, reads]: [StoredKey | Error | undefined, number] = [usual, 0]
  let cutMs = 0
  const issuedMs = clock.now()
  let listener: HintListener = () => undefined
  const held: Promise<void>[] = []
  const tickets = new Map<string, Principal>()
  let redeemed = 0
  const callers = createCallers({
    keys: {
      find: async (asked) => {
        reads += 1
        const read = stored
        await held.shift()
        if (read instanceof Error) throw read
        return asked === id ? read : undefined
      },
    },
    tokens: {
      read: async () => ({
        tenant: 'acme',
        key: id,
        user: {
          id: 'ada',
          rights: new Set(['read']),
          sessions: undefined,
          issuedMs,
          endMs: issuedMs + 60_000,
        },
      }),
    },
    tickets: {
      redeem: async (ticket) => {
        redeemed += 1
        const found = tickets.get(ticket)
        tickets.delete(ticket)
        return found
      },
    },
    issuers: { recent: async () => new Map(), forget: () => undefined },
    outside: { read: () => assert.fail('it is not from outside') },
    cuts: { isCut: async (_, __, at) => at <= cutMs },
    tenants: { numberOf: async () => 1, find: async () => 7 },
    hints: { listen: (_, given) => ((listener = given), () => undefined) },
    clock,
    metrics: createMetrics(),
    isInsecure,
    loginRate: 3,
  })
  await callers.start()
  return {
    clock,
    callers,
    reads: () => reads,
    /** The next read that is not held yet waits until the returned function is called. */
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      held.push(promise)
      return resolve
    },
    hint: (source: Parameters<HintListener>[0]) => listener(source),
    change: (to: Partial<StoredKey> | Error | undefined) => {
      stored = to instanceof Error || to === undefined ? to : { ...usual, ...to }
    },
    ask: () => callers.gateway.callerOf({ authorization: `Bearer ${text}`, isLocal: false, address: HERE }),
    text,
    askWith: (key: string, address = HERE) =>
      callers.gateway.callerOf({ authorization: `Bearer ${key}`, isLocal: false, address }),
    askAdmin: () =>
      callers.admin.callerOf({ authorization: `Bearer ${text}`, isLocal: false, address: HERE }),
    /** A user whose token this key has minted. */
    askAsUser: () =>
      callers.gateway.callerOf({ authorization: `Bearer ${OWN}`, isLocal: false, address: HERE }),
    cut: (atMs: number) => void (cutMs = atMs),
    addTicket: (ticket: string, user: Principal) => void tickets.set(ticket, user),
    askWithTicket: (ticket: string) =>
      callers.gateway.callerOf({ authorization: undefined, ticket, isLocal: true, address: HERE }),
    redeemed: () => redeemed,
  }
}
