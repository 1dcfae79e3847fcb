// S7, S8: which tokens are valid, on a manual clock. Each one that is not is refused for a named reason.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { SignJWT, UnsecuredJWT, type JWTPayload } from 'jose'
import { Rejected } from '../../src/errors.ts'
import { POD } from '../../src/identity/actor.ts'
import { createTokens } from '../../src/identity/tokens.ts'
import { systemRandom } from '../../src/lib/random.ts'
import type { Transactions } from '../../src/store/database.ts'
import { manualClock } from '../support/clock.ts'
import { keyServer } from '../support/key-server.ts'
import { SECRET } from '../support/tokens.ts'

const OWNER = { tenant: 'acme', key: 'abcdefghijkl' }
const MINTER = { ...OWNER, number: 7, actor: POD }
const WANTED = { user: 'ada', rights: ['read', 'send'], seconds: 600 } as const
const SESSION = '019a8c3e-5d7b-7c2a-9f0e-1d2c3b4a5968'
const OLD = Buffer.alloc(32, 2)

test('S8: a token says who its user is, for whom it was minted and what it lets the user do', async () => {
  const { clock, tokens } = setUp()
  const { token, expiresAt } = await tokens.mint(MINTER, { ...WANTED, sessions: [SESSION] })
  assert.equal(expiresAt.getTime(), clock.now() + 600_000)
  const { user, ...owner } = await tokens.read(token)
  assert.deepEqual(owner, OWNER)
  assert.equal(user.id, 'ada')
  assert.deepEqual([...user.rights], ['read', 'send'])
  assert.deepEqual([...user.sessions!], [SESSION])
  assert.equal(user.issuedMs, clock.now())
  const wide = await tokens.mint({ ...MINTER, key: null }, WANTED)
  const read = await tokens.read(wide.token)
  assert.deepEqual([read.key, read.user.sessions], [null, undefined])
})

test('S7: a token is valid from 30 s before its time to 30 s after it, and no longer', async () => {
  const { clock, setTime, tokens, reasonOf, signed } = setUp()
  const startMs = clock.now()
  const reasonAt = async (token: string, seconds: number) => {
    setTime(startMs + seconds * 1_000)
    return reasonOf(token)
  }
  const { token } = await tokens.mint(MINTER, { ...WANTED, seconds: 60 })
  for (const [seconds, reason] of [
    [-30.1, 'early'],
    [-29.9, undefined],
    [89.9, undefined],
    [90.1, 'expired'],
  ] as const)
    assert.equal(await reasonAt(token, seconds), reason, `${seconds} s`)
  const later = await signed({ ...claimsAt(startMs / 1_000), nbf: startMs / 1_000 + 100 })
  assert.equal(await reasonAt(later, 69.9), 'early')
  assert.equal(await reasonAt(later, 70.1), undefined)
})

test('S7: a token of a stranger, of another algorithm, or without a required claim is rejected, with the reason', async (t) => {
  const login = await keyServer(t)
  const { clock, reasonOf, signed } = setUp()
  const iat = clock.now() / 1_000
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = Buffer.from(publicKey.export({ type: 'spki', format: 'pem' }))
  const none = new UnsecuredJWT({ ...claimsAt(iat) }).encode()
  const unsigned = none.replace(/^[^.]+/, Buffer.from('{"alg":"none","kid":"test"}').toString('base64url'))
  const cases: Readonly<Record<string, readonly [reason: string | undefined, token: string]>> = {
    'as it should be': [undefined, await signed(claimsAt(iat))],
    'signed with the old key of the ring': [
      undefined,
      await signed(claimsAt(iat), { kid: 'old', secret: OLD }),
    ],
    'the old key under the name of the new one': ['signature', await signed(claimsAt(iat), { secret: OLD })],
    'a key that nobody knows': ['signature', await signed(claimsAt(iat), { kid: 'other' })],
    'a kid that is a URL': ['signature', await signed(claimsAt(iat), { kid: login.jwksUrl })],
    'signed by an issuer of others, with its kid': ['algorithm', await login.sign(claimsAt(iat))],
    'signed by an issuer of others, whose keys a header names': [
      'algorithm',
      await login.sign(claimsAt(iat), { jku: login.jwksUrl, x5u: login.jwksUrl, kid: 'test' }),
    ],
    'signed with the public key of an issuer': [
      'signature',
      await signed(claimsAt(iat), { secret: login.publicPem }),
    ],
    'no kid': ['signature', await signed(claimsAt(iat), { kid: '' })],
    'signed with a public key': ['signature', await signed(claimsAt(iat), { secret: pem })],
    'alg none': ['algorithm', unsigned],
    'alg HS512': ['algorithm', await signed(claimsAt(iat), { alg: 'HS512', secret: Buffer.alloc(64, 1) })],
    'another issuer': ['audience', await signed({ ...claimsAt(iat), iss: 'https://evil.test' })],
    'another cell': ['audience', await signed({ ...claimsAt(iat), aud: 'fleetline/1' })],
    'no audience': ['malformed', await signed(without(claimsAt(iat), 'aud'))],
    'no user': ['malformed', await signed(without(claimsAt(iat), 'sub'))],
    'no end': ['malformed', await signed(without(claimsAt(iat), 'exp'))],
    'no tenant': ['malformed', await signed(without(claimsAt(iat), 'ten'))],
    'valid for a day, issued 11 minutes ago': [
      'expired',
      await signed({ ...claimsAt(iat - 660), exp: iat + 86_400 }),
    ],
    'not before tomorrow': ['early', await signed({ ...claimsAt(iat), nbf: iat + 86_400 })],
    'no token at all': ['malformed', 'a.b.c'],
    'two parts': ['malformed', 'a.b'],
  }
  for (const [name, [reason, token]] of Object.entries(cases))
    assert.equal(await reasonOf(token), reason, name)
  assert.equal(login.fetches(), 0, 'no token makes a pod call a URL')
})

test('a pod without keys mints no token and accepts none; rights that it does not know are none', async () => {
  const { tokens, signed, clock } = setUp()
  const { tokens: keyless, reasonOf } = setUp([])
  await assert.rejects(keyless.mint(MINTER, WANTED), { code: 'invalid', message: /set FLEETLINE_TOKEN_KEYS/ })
  assert.equal(await reasonOf((await tokens.mint(MINTER, WANTED)).token), 'signature')
  const later = { ...claimsAt(clock.now() / 1_000), scp: ['read', 'approve'] }
  assert.deepEqual([...(await tokens.read(await signed(later))).user.rights], ['read'])
})

function claimsAt(iat: number): JWTPayload {
  const own = { ten: 'acme', ses: 'member', scp: ['read'] }
  return { iss: 'fleetline', aud: 'fleetline/0', sub: 'ada', iat, exp: iat + 600, jti: '1', ...own }
}

function without(claims: JWTPayload, name: string): JWTPayload {
  return Object.fromEntries(Object.entries(claims).filter(([claim]) => claim !== name))
}

const RING = [
  { id: 'test', secret: SECRET },
  { id: 'old', secret: OLD },
]

function setUp(tokenKeys = RING) {
  let nowMs = 1_700_000_000_000
  const clock = { ...manualClock(), now: () => nowMs }
  const database = {
    transaction: async (work: () => Promise<unknown>) => ({ type: 'committed', value: await work() }),
  }
  const audit = { record: async () => new Date(clock.now()) }
  const deps = { tokenKeys, cell: 0, audit, clock, random: systemRandom() }
  const tokens = createTokens({ ...deps, database: database as unknown as Transactions })
  return {
    clock,
    setTime: (ms: number) => void (nowMs = ms),
    tokens,
    /** Undefined: the token is valid. */
    reasonOf: (token: string): Promise<unknown> =>
      tokens.read(token).then(
        () => undefined,
        (error: unknown) => {
          assert.ok(error instanceof Rejected && error.code === 'unauthenticated', String(error))
          return error.fields['reason']
        },
      ),
    signed: (claims: JWTPayload, { alg = 'HS256', kid = 'test', secret = SECRET } = {}) =>
      new SignJWT(claims).setProtectedHeader({ alg, ...(kid !== '' && { kid }) }).sign(secret),
  }
}
