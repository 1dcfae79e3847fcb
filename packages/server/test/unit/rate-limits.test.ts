// S29: each limit at its number, one more, and after the wait, on a clock that the test moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Rejected } from '../../src/errors.ts'
import { anyoneOf, ANY_OPERATOR, type Principal, type TokenUser } from '../../src/identity/principal.ts'
import { createRateLimits, type RateLimits } from '../../src/identity/rate-limits.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { manualClock } from '../support/clock.ts'

const NO_SCOPES: Principal['scopes'] = new Set()
const HIGH = 1_000_000
const USUAL = { sessionRate: HIGH, userRate: HIGH, keyRate: HIGH, tenantRate: HIGH }

function keyOf(tenant: number | null, key: string): Principal {
  return { tenant, key, scopes: NO_SCOPES }
}

function userOf(tenant: number, id: string): Principal {
  const user: TokenUser = { id, rights: new Set(), sessions: undefined, issuedMs: 0, endMs: HIGH }
  return { tenant, key: 'minter', scopes: NO_SCOPES, user }
}

type Case = {
  readonly limit: string
  readonly rates: Partial<typeof USUAL>
  /** Which requests share the limit. */
  readonly asks: readonly ((limits: RateLimits) => void)[]
  /** Which requests do not. */
  readonly others: readonly ((limits: RateLimits) => void)[]
  readonly text: RegExp
}

const request = (principal: Principal) => (limits: RateLimits) => limits.countRequest(principal)
const append = (principal: Principal, session: string) => (limits: RateLimits) =>
  limits.countAppend(principal, session)

const CASES: readonly Case[] = [
  {
    limit: 'session',
    rates: { sessionRate: 10 },
    asks: [append(userOf(7, 'ada'), 's-1'), append(userOf(7, 'bob'), 's-1')],
    others: [append(userOf(7, 'ada'), 's-2'), append(userOf(8, 'ada'), 's-1'), append(keyOf(7, 'k'), 's-1')],
    text: /^Users append too many messages to this session on this pod: at most 10 a second\. Wait, then send again$/,
  },
  {
    limit: 'user',
    rates: { userRate: 10 },
    asks: [request(userOf(7, 'ada'))],
    others: [request(userOf(7, 'bob')), request(userOf(8, 'ada')), request(keyOf(7, 'minter'))],
    text: /^This user sends too many requests to this pod: at most 10 a second\./,
  },
  {
    limit: 'key',
    rates: { keyRate: 10 },
    asks: [request(keyOf(7, 'k'))],
    others: [request(keyOf(7, 'l')), request(userOf(7, 'ada')), request(keyOf(null, 'l'))],
    text: /^Callers with this key send too many requests to this pod: at most 10 a second\./,
  },
  {
    limit: 'tenant',
    rates: { tenantRate: 10 },
    asks: [
      request(keyOf(7, 'k')),
      request(keyOf(7, 'l')),
      request(userOf(7, 'ada')),
      request(userOf(7, 'bob')),
    ],
    others: [request(keyOf(8, 'm')), request(userOf(8, 'ada')), request(keyOf(null, 'o'))],
    text: /^The callers of this tenant send too many requests to this pod: at most 10 a second\./,
  },
]

for (const { limit, rates, asks, others, text } of CASES)
  test(`S29: the limit of one ${limit} lets 40 through at 10 a second, rejects one more, and lets it through 100 ms later`, async () => {
    const { clock, limits, metric } = setUp(rates)
    for (let n = 0; n < 40; n += 1) asks[n % asks.length]!(limits)
    for (const ask of asks) {
      const refusal = refusalBy(() => ask(limits))
      assert.deepEqual([refusal.code, refusal.fields['retryAfterMs']], ['rate_limited', 100])
      assert.match(refusal.message, text)
    }
    for (const other of others) for (let n = 0; n < 9; n += 1) other(limits)
    assert.equal(await metric(limit), asks.length)
    await clock.advance(99)
    assert.equal(refusalBy(() => asks[0]!(limits)).fields['retryAfterMs'], 1)
    await clock.advance(1)
    asks[0]!(limits)
    refusalBy(() => asks[0]!(limits))
  })

test('S29: a request that one limit rejects counts for no other', () => {
  const { limits } = setUp({ userRate: 1, tenantRate: 2 })
  for (let n = 0; n < 4; n += 1) limits.countRequest(userOf(7, 'ada'))
  for (let n = 0; n < 100; n += 1) refusalBy(() => limits.countRequest(userOf(7, 'ada')))
  for (let n = 0; n < 4; n += 1) limits.countRequest(keyOf(7, 'k'))
  refusalBy(() => limits.countRequest(keyOf(7, 'k')))
})

test('a key of an operator counts by itself; callers that an insecure pod lets in are not limited', () => {
  const { limits } = setUp({ sessionRate: 1, userRate: 1, keyRate: 1, tenantRate: 1 })
  for (let n = 0; n < 4; n += 1) limits.countRequest(keyOf(null, 'o'))
  refusalBy(() => limits.countRequest(keyOf(null, 'o')))
  for (let n = 0; n < 100; n += 1) {
    limits.countRequest(anyoneOf(1))
    limits.countRequest(ANY_OPERATOR)
    limits.countAppend(anyoneOf(1), 's-1')
  }
})

function setUp(rates: Partial<typeof USUAL>) {
  const [clock, metrics] = [manualClock(), createMetrics()]
  return {
    clock,
    limits: createRateLimits({ ...USUAL, ...rates, clock, metrics }),
    metric: async (limit: string) => {
      const line = new RegExp(`^fleetline_rate_limited_total\\{limit="${limit}"\\} (\\d+)$`, 'm')
      return Number(line.exec(await metrics.text())?.[1])
    },
  }
}

function refusalBy(ask: () => void): Rejected {
  try {
    ask()
  } catch (error) {
    assert.ok(error instanceof Rejected)
    return error
  }
  return assert.fail('it was let through')
}
