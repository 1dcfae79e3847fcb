// Revokes on one pod, while users and keys read on another pod that gets no hints: a key, a user, the key that minted a token, a
// member and an issuer. S9: within 5 s the other pod rejects every request, and ends every stream. The times are counted from the
// moment before the revocation is sent.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { databaseFor } from '../support/database.ts'
import { deafPodOn } from '../support/deaf-pod.ts'
import { call } from '../support/http.ts'
import { keyServer } from '../support/key-server.ts'
import { CLOSED, podOn } from '../support/pod.ts'
import { readEvents } from '../support/reader.ts'

const ROUNDS = 4 // in less than the minute after which the deaf pod listens again
const BOUND_MS = 5_000
const AUDIENCE = 'chat'
/** Rejected requests are many here, and all of one address. */
const UNLIMITED = { userRate: '1000000', keyRate: '1000000', tenantRate: '1000000', loginRate: '1000000' }

test(`S9: ${ROUNDS * 5} revocations end every stream and every request within 5 s on a pod without hints`, async (t) => {
  const { callersOf, timesOf } = await fleetOn(t)
  const rounds = await Promise.all(Array.from({ length: ROUNDS }, (_, round) => callersOf(round)))
  await pause(3_000) // then the deaf pod knows the issuers, too
  for (const callers of rounds)
    for (const { name, streamMs, requestMs } of await Promise.all(callers.map(timesOf))) {
      t.diagnostic(`figure cut_stream_ms ${streamMs}`)
      t.diagnostic(`figure cut_request_ms ${requestMs}`)
      assert.ok(streamMs <= BOUND_MS, `the stream of a revoked ${name} ended after ${streamMs} ms`)
      assert.ok(requestMs <= BOUND_MS, `requests of a revoked ${name} were rejected after ${requestMs} ms`)
    }
})

/** What is revoked: `shown` is what its caller sends. */
type Caller = {
  readonly name: string
  readonly shown: string
  readonly revoke: () => Promise<unknown>
}

async function fleetOn(t: TestContext) {
  const url = await databaseFor(t)
  const deaf = await deafPodOn(t, url, { ...CLOSED, ...UNLIMITED })
  const { pod, gateway } = await podOn(t, url, CLOSED)
  const { key } = await pod.keys.create({ tenant: 'dev', name: 'backend' })
  const login = await keyServer(t)
  const { session } = await pod.sessions.create()
  const at = `/v1/sessions/${session}`
  const tokenOf = async (user: string, mintedBy = key) => {
    await call('PUT', `${gateway}${at}/members/${user}`, undefined, key)
    return String((await call('POST', `${gateway}/v1/tokens`, { user }, mintedBy)).body['token'])
  }
  /** One of each kind, with names that no other round uses. */
  const callersOf = async (round: number): Promise<Caller[]> => {
    const own = await pod.keys.create({ tenant: 'dev', name: `own-${round}` })
    const minter = await pod.keys.create({ tenant: 'dev', name: `minter-${round}`, scopes: ['tokens:mint'] })
    const [user, minted, member, sub] = ['user', 'minted', 'member', 'outside'].map(
      (one) => `${one}-${round}`,
    )
    const [name, issuer] = [`issuer-${round}`, `https://login-${round}.test`]
    await pod.issuers.add({ name, tenant: 'dev', issuer, audience: AUDIENCE, jwksUrl: login.jwksUrl })
    await call('PUT', `${gateway}${at}/members/${sub}`, undefined, key)
    const iat = Math.floor(Date.now() / 1_000)
    const outside = await login.sign({ iss: issuer, aud: AUDIENCE, sub: sub!, iat, exp: iat + 600 })
    const without = async () => call('DELETE', `${gateway}${at}/members/${member}`, undefined, key)
    return [
      { name: 'key', shown: own.key, revoke: () => pod.keys.revoke(own.entry.id) },
      { name: 'user', shown: await tokenOf(user!), revoke: () => pod.tokens.revoke(user!) },
      {
        name: 'minter',
        shown: await tokenOf(minted!, minter.key),
        revoke: () => pod.keys.revoke(minter.entry.id),
      },
      { name: 'member', shown: await tokenOf(member!), revoke: without },
      { name: 'issuer', shown: outside, revoke: () => pod.issuers.remove(name) },
    ]
  }
  const timesOf = async ({ name, shown, revoke }: Caller) => {
    const headers = { authorization: `Bearer ${shown}` }
    const ask = async () => {
      const answer = await fetch(`${deaf.gateway}${at}`, { headers })
      await answer.body?.cancel()
      return answer.status
    }
    const stream = await readEvents(t, `${deaf.gateway}${at}/events`, headers)
    assert.equal(await ask(), 200, name)
    await pause(Math.random() * 2_500) // anywhere between two reads of the pod
    assert.equal(await ask(), 200, name)
    const startMs = performance.now()
    const streamEnd = stream.ended.then(() => performance.now() - startMs)
    await revoke()
    let lastMs = 0
    // A rejected request proves little if a later one is let in, so requests go on until the bound.
    for (let nowMs = 0; nowMs < BOUND_MS + 500; nowMs = performance.now() - startMs) {
      const askedMs = performance.now() - startMs
      if ((await ask()) === 200) lastMs = askedMs
      await pause(20)
    }
    stream.cut() // a stream that is still open has missed the bound by far
    return { name, streamMs: await streamEnd, requestMs: lastMs }
  }
  return { callersOf, timesOf }
}
