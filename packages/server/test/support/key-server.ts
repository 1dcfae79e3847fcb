// An issuer of others, as a service for logins is one: it signs tokens, and serves its public keys on loopback.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, type JWTPayload } from 'jose'
import { atEnd } from './cleanup.ts'

export type KeyServer = Awaited<ReturnType<typeof keyServer>>

export async function keyServer(t: TestContext, alg = 'ES256') {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
  const [kid, jwk] = ['one', await exportJWK(publicKey)]
  let [isUp, fetches] = [true, 0]
  const server = createServer((_, response) => {
    fetches += 1
    if (isUp)
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify({ keys: [{ ...jwk, kid, alg }] }))
    else response.writeHead(500).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close().closeAllConnections())
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
  return {
    jwksUrl,
    publicJwk: jwk,
    publicPem: Buffer.from(await exportSPKI(publicKey)),
    fetches: () => fetches,
    setUp: (up: boolean) => void (isUp = up),
    sign: (claims: JWTPayload, header: object = {}) =>
      new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(privateKey),
  }
}
