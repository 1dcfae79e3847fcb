// When a device gets a token, on a clock that the test moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manualClock } from '../../../server/test/support/clock.ts'
import { FleetlineError } from '../../src/failure.ts'
import { createHttp } from '../../src/http.ts'
import { createTokens, type TokenSource } from '../../src/tokens.ts'

const NEVER = new AbortController().signal
const random = () => 0.5

/** The nth token, valid for so long. */
function tokenOf(nth: number, seconds: number): string {
  const claims = { iat: 1_000, exp: 1_000 + seconds, sub: 'Zoë?>', nth }
  return `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`
}

test('a token is renewed 60 s before it expires, or a third of its life if that is less', async () => {
  for (const [seconds, dueMs] of [
    [600, 540_000],
    [90, 60_000],
    [1, 1_000],
  ] as const) {
    const clock = manualClock()
    let calls = 0
    const tokens = createTokens({ source: () => tokenOf((calls += 1), seconds), clock, random })
    const first = await tokens.get()
    const renewed = tokens.renewed(first, NEVER).then(() => calls)
    await clock.advance(dueMs - 1)
    assert.equal(await tokens.get(), first)
    await clock.advance(1)
    assert.equal(await renewed, 2, `${seconds} s`)
    assert.equal(await tokens.get(), tokenOf(2, seconds))
  }
})

test('requests at the same time share one call, and use the old token while it is valid', async () => {
  const clock = manualClock()
  const waiting: ((token: string) => void)[] = []
  const source = () => new Promise<string>((resolve) => void waiting.push(resolve))
  const tokens = createTokens({ source, clock, random })
  const both = [tokens.get(), tokens.get()]
  assert.equal(waiting.length, 1)
  waiting[0]!(tokenOf(1, 90))
  assert.deepEqual(await Promise.all(both), [tokenOf(1, 90), tokenOf(1, 90)])
  await clock.advance(60_000)
  assert.deepEqual(
    [await tokens.get(), await tokens.get(), waiting.length],
    [tokenOf(1, 90), tokenOf(1, 90), 2],
  )
  await clock.advance(30_000)
  const late = assert.rejects(tokens.get(), { code: 'unavailable', message: /took longer than 30 s/ })
  await clock.advance(30_000)
  await late
  const last = tokens.get()
  assert.equal(waiting.length, 4)
  waiting[3]!(tokenOf(4, 90))
  assert.equal(await last, tokenOf(4, 90))
  assert.equal(clock.sleepers, 0)
})

test('a function that fails is called again; its own FleetlineError is passed on', async () => {
  const clock = manualClock()
  const errors: unknown[] = [
    new Error('no network'),
    '',
    new FleetlineError({ code: 'forbidden', text: 'Log in.' }),
  ]
  const tokens = createTokens({
    source: async () => {
      const error = errors.shift()
      if (error === '') return ''
      throw error
    },
    clock,
    random,
  })
  await assert.rejects(tokens.get(), { code: 'unavailable', message: 'The function `token` has failed.' })
  await assert.rejects(tokens.get(), { code: 'unavailable', message: /returned no token/ })
  await assert.rejects(tokens.get(), { code: 'forbidden', message: 'Log in.' })
})

test('a request whose token is rejected is repeated once with another token; a token that is a text is not replaced', async () => {
  const ask = async (source: TokenSource, isGood: (token: string) => boolean) => {
    const [clock, asked]: [ReturnType<typeof manualClock>, string[]] = [manualClock(), []]
    const fetch = async (_: unknown, init?: RequestInit) => {
      const token = new Headers(init?.headers).get('authorization')!.slice('Bearer '.length)
      asked.push(token)
      const error = { code: 'unauthenticated', text: 'The token has expired.', retryable: false }
      return isGood(token) ? Response.json({ ok: true }) : Response.json({ error }, { status: 401 })
    }
    const http = createHttp({ url: '', fetch, clock, tokens: createTokens({ source, clock, random }) })
    const outcome = await http.get('/x', NEVER).catch((error: FleetlineError) => error.code)
    assert.equal(clock.sleepers, 0)
    return { asked, outcome }
  }
  const counting = () => {
    let calls = 0
    return () => `token-${(calls += 1)}`
  }
  assert.deepEqual(await ask(counting(), (token) => token === 'token-2'), {
    asked: ['token-1', 'token-2'],
    outcome: { ok: true },
  })
  assert.deepEqual(await ask(counting(), () => false), {
    asked: ['token-1', 'token-2'],
    outcome: 'unauthenticated',
  })
  assert.deepEqual(await ask('fixed', () => false), { asked: ['fixed'], outcome: 'unauthenticated' })
})
