// S6, S9: how long a pod trusts what it has read about a key, and whom it lets in without one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCallers } from '../../src/identity/callers.ts'
import { digestOf, mintKey } from '../../src/identity/key-text.ts'
import type { StoredKey } from '../../src/identity/keys.ts'
import { Retry } from '../../src/errors.ts'
import { systemRandom } from '../../src/lib/random.ts'
import type { HintListener } from '../../src/store/hints.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { manualClock } from '../support/clock.ts'

/** Only its issuer is read here; `tokens.ts` verifies the rest. */
const OWN = `e30.${Buffer.from('{"iss":"fleetline"}').toString('base64url')}.x`
const LONG = 365 * 86_400_000

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
  const nobody = { authorization: undefined, address: '127.0.0.1', isLocal: true }
  const [secure, insecure] = [await setUp(), await setUp({ isInsecure: true })]
  await assert.rejects(secure.callers.gateway.callerOf(nobody), { code: 'unauthenticated' })
  const caller = await insecure.callers.gateway.callerOf(nobody)
  assert.equal(caller.tenant, 1)
  assert.ok(!caller.scopes.has('operate'))
  const operator = await insecure.callers.admin.callerOf(nobody)
  assert.equal(operator.tenant, null)
  assert.deepEqual([...operator.scopes], ['operate', 'admin:read'], 'it creates no keys')
  const remote = { authorization: undefined, address: '127.0.0.1', isLocal: false }
  await assert.rejects(insecure.callers.gateway.callerOf(remote), { code: 'unauthenticated' })
  const wrong = { authorization: 'Bearer wrong', address: '127.0.0.1', isLocal: true }
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
  let [listener, held]: [HintListener, Promise<void>?] = [() => undefined]
  const callers = createCallers({
    keys: {
      find: async () => {
        reads += 1
        const [read, wait] = [stored, held]
        held = undefined
        await wait
        if (read instanceof Error) throw read
        return read
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
    issuers: { recent: async () => new Map(), forget: () => undefined },
    outside: { read: () => assert.fail('it is not from outside') },
    cuts: { isCut: async (_, __, at) => at <= cutMs },
    tenants: { numberOf: async () => 1, find: async () => 7 },
    hints: { listen: (_, given) => ((listener = given), () => undefined) },
    clock,
    metrics: createMetrics(),
    isInsecure,
  })
  await callers.start()
  return {
    clock,
    callers,
    reads: () => reads,
    /** The next read waits until the returned function is called. */
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return resolve
    },
    hint: (source: Parameters<HintListener>[0]) => listener(source),
    change: (to: Partial<StoredKey> | Error | undefined) => {
      stored = to instanceof Error || to === undefined ? to : { ...usual, ...to }
    },
    ask: () =>
      callers.gateway.callerOf({ authorization: `Bearer ${text}`, address: '127.0.0.1', isLocal: false }),
    askAdmin: () =>
      callers.admin.callerOf({ authorization: `Bearer ${text}`, address: '127.0.0.1', isLocal: false }),
    /** A user whose token this key has minted. */
    askAsUser: () =>
      callers.gateway.callerOf({ authorization: `Bearer ${OWN}`, address: '127.0.0.1', isLocal: false }),
    cut: (atMs: number) => void (cutMs = atMs),
  }
}
