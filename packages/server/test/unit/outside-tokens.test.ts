// S7: which tokens of issuers of others are valid, on a manual clock, with key servers on loopback. Each one that is not is refused
// for a named reason.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { SignJWT, UnsecuredJWT, type JWTPayload } from 'jose'
import { refusalOf } from '../../src/door/refusal.ts'
import { Rejected, Retry } from '../../src/errors.ts'
import type { StoredIssuer } from '../../src/identity/issuers.ts'
import { createOutsideTokens, isFromOutside } from '../../src/identity/outside-tokens.ts'
import { manualClock } from '../support/clock.ts'
import { keyServer } from '../support/key-server.ts'

const [ISS, AUD] = ['https://login.test/', 'chat']

test('S7: a token of a configured issuer names a user of the issuer’s tenant, with the rights read, send and stop', async (t) => {
  for (const alg of ['EdDSA', 'ES256', 'RS256']) {
    const { clock, own, tokens } = await setUp(t, alg)
    const iat = clock.now() / 1_000
    const { tenant, user } = await tokens.read(await own.sign({ ...claimsAt(iat), tenant: 9, ten: 'other' }))
    assert.equal(tenant, 7)
    assert.deepEqual(
      [user.id, [...user.rights], user.sessions],
      ['auth0|ada', ['read', 'send', 'stop'], undefined],
    )
    assert.equal(user.issuedMs, clock.now() - 60_000, 'by a clock that is not ours')
    assert.equal(user.endMs, clock.now() + 930_000, 'its age, although it expires later')
  }
})

test('S7: a token of others is refused by name, unless all of it is right', async (t) => {
  const { clock, own, other, reasonOf } = await setUp(t)
  const iat = clock.now() / 1_000
  const claims = claimsAt(iat)
  const hs = (secret: Uint8Array, iss = ISS) =>
    new SignJWT({ ...claims, iss }).setProtectedHeader({ alg: 'HS256', kid: 'one' }).sign(secret)
  const cases: Readonly<Record<string, readonly [reason: string | undefined, token: string]>> = {
    'as it should be': [undefined, await own.sign(claims)],
    'two audiences, one of them ours': [undefined, await own.sign({ ...claims, aud: ['x', AUD] })],
    'expired 29.9 s ago': [undefined, await own.sign({ ...claims, exp: iat - 29.9 })],
    'expired 30.1 s ago': ['expired', await own.sign({ ...claims, exp: iat - 30.1 })],
    'issued in 29.9 s': [undefined, await own.sign({ ...claims, iat: iat + 29.9 })],
    'issued in 30.1 s': ['early', await own.sign({ ...claims, iat: iat + 30.1 })],
    'not before 29.9 s': [undefined, await own.sign({ ...claims, nbf: iat + 29.9 })],
    'not before 30.1 s': ['early', await own.sign({ ...claims, nbf: iat + 30.1 })],
    'issued 15 minutes and 29.9 s ago': [undefined, await own.sign({ ...claims, iat: iat - 929.9 })],
    'issued 15 minutes and 30.1 s ago': ['expired', await own.sign({ ...claims, iat: iat - 930.1 })],
    'issued 16 minutes ago': ['expired', await own.sign({ ...claims, iat: iat - 960 })],
    'another audience': ['audience', await own.sign({ ...claims, aud: 'other' })],
    'no audience': ['audience', await own.sign({ iss: ISS, sub: 'ada', iat, exp: iat + 60 })],
    'an issuer that nobody has configured': [
      'audience',
      await own.sign({ ...claims, iss: 'https://evil.test/' }),
    ],
    'audiences of two issuers': ['audience', await own.sign({ ...claims, aud: [AUD, 'second'] })],
    'signed by another issuer': ['signature', await other.sign(claims)],
    'a kid that is a URL': ['signature', await own.sign(claims, { kid: other.jwksUrl })],
    'a jku that is a URL': ['signature', await other.sign(claims, { jku: other.jwksUrl })],
    'HS256 signed with the public key': ['algorithm', await hs(own.publicPem)],
    'HS256 signed with the public key as JSON': [
      'algorithm',
      await hs(Buffer.from(JSON.stringify(own.publicJwk))),
    ],
    'alg none': ['algorithm', new UnsecuredJWT(claims).encode()],
    'no user': ['malformed', await own.sign({ iss: ISS, aud: AUD, iat, exp: iat + 60 })],
    'a user with a control character': ['malformed', await own.sign({ ...claims, sub: 'a\nb' })],
    'a user of 129 characters': ['malformed', await own.sign({ ...claims, sub: 'x'.repeat(129) })],
    'no end': ['malformed', await own.sign({ iss: ISS, aud: AUD, sub: 'ada', iat })],
    'no beginning': ['malformed', await own.sign({ iss: ISS, aud: AUD, sub: 'ada', exp: iat + 60 })],
  }
  for (const [name, [reason, token]] of Object.entries(cases))
    assert.equal(await reasonOf(token), reason, name)
  assert.equal(other.fetches(), 0, 'no token makes a pod call a URL')
  assert.throws(() => isFromOutside('a.b.c'), { code: 'unauthenticated' })
  assert.ok(isFromOutside(await own.sign(claims)))
})

test('S7: while the keys of an issuer cannot be fetched, its tokens get 503; keys that were fetched are used', async (t) => {
  const { clock, own, tokens, reasonOf } = await setUp(t)
  const token = await own.sign(claimsAt(clock.now() / 1_000))
  own.setUp(false)
  assert.equal(await reasonOf(token), 'unavailable: The keys of the issuer own cannot be fetched')
  const refusal = refusalOf(await tokens.read(token).catch((error: unknown) => error))
  assert.equal(refusal.text, 'The keys of the issuer own cannot be fetched', 'the caller reads the same')
  own.setUp(true)
  await clock.advance(4_999)
  assert.match(String(await reasonOf(token)), /cannot be fetched/)
  assert.equal(own.fetches(), 1, 'a flood of tokens does not become a flood of fetches')
  await clock.advance(1)
  assert.equal(await reasonOf(token), undefined)
  own.setUp(false)
  assert.equal(await reasonOf(token), undefined)
})

function claimsAt(iat: number): JWTPayload {
  return { iss: ISS, aud: AUD, sub: 'auth0|ada', iat, exp: iat + 86_400 }
}

async function setUp(t: TestContext, alg = 'ES256') {
  const [clock, own, other] = [manualClock(), await keyServer(t, alg), await keyServer(t, alg)]
  const usual = { issuer: ISS, audience: AUD, algorithms: [alg], maxAgeSeconds: 900 }
  const all: StoredIssuer[] = [
    { ...usual, id: 1, name: 'own', tenant: 7, jwksUrl: own.jwksUrl },
    { ...usual, id: 2, name: 'other', tenant: 8, jwksUrl: other.jwksUrl, issuer: 'https://other.test/' },
    { ...usual, id: 3, name: 'second', tenant: 9, jwksUrl: other.jwksUrl, audience: 'second' },
  ]
  const issuers = { recent: async () => new Map(all.map((one) => [one.id, one])) }
  const tokens = createOutsideTokens({ issuers, clock })
  return {
    clock,
    own,
    other,
    tokens,
    /** Undefined: the token is valid. */
    reasonOf: (token: string): Promise<unknown> =>
      tokens.read(token).then(
        () => undefined,
        (error: unknown) => {
          assert.ok(error instanceof Rejected || error instanceof Retry, String(error))
          return error.code === 'unauthenticated' ? error.fields['reason'] : `${error.code}: ${error.message}`
        },
      ),
  }
}
