// What a person reads if PostgreSQL cannot be reached: the cause, and what to do about it.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { newClient, withoutAliases } from '../../src/store/client.ts'
import { cannotConnect } from '../../src/store/connect-fault.ts'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { openDatabase } from '../support/store.ts'

const URL = 'postgres://app:sesame@db.internal/fleet'
const UNUSABLE = [
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'CRL_SIGNATURE_FAILURE',
  'PATH_LENGTH_EXCEEDED',
  'ERROR_IN_CERT_NOT_AFTER_FIELD',
]
const failure = (message: string, code?: string) => Object.assign(new Error(message), { code })

test('a failure to connect says what failed and what to do, but not the password', () => {
  const refusal = (code: string, message: string) =>
    Object.assign(new pg.DatabaseError(message, 0, 'error'), { code })
  const cases: readonly (readonly [cause: unknown, text: RegExp])[] = [
    [
      failure('getaddrinfo ENOTFOUND db.internal', 'ENOTFOUND'),
      /The host db\.internal .* no address: .*Correct the host/,
    ],
    ...['EAI_AGAIN', 'EAI_FAIL', 'ENODATA'].map(
      (code) =>
        [failure(`getaddrinfo ${code} db.internal`, code), new RegExp(`no address: .*${code}`)] as const,
    ),
    [
      failure('self-signed certificate', 'DEPTH_ZERO_SELF_SIGNED_CERT'),
      /The certificate .* is not accepted: self-signed certificate\. If your own authority .*sslrootcert=FILE/,
    ],
    [failure('unable to verify the first certificate', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'), /not accepted/],
    [
      failure('certificate has expired', 'CERT_HAS_EXPIRED'),
      /not accepted: certificate has expired\. Renew the certificate of PostgreSQL$/,
    ],
    [failure('CRL has expired', 'CRL_HAS_EXPIRED'), /Renew the list of revoked certificates$/],
    [
      failure('certificate is not yet valid', 'CERT_NOT_YET_VALID'),
      /not accepted: certificate is not yet valid\. Compare the clocks of this machine and of the server/,
    ],
    ...UNUSABLE.map(
      (code) =>
        [
          failure('no', code),
          /The certificate .* is not accepted: no\. Replace the certificate of PostgreSQL$/,
        ] as const,
    ),
    ...['ERR_TLS_CERT_ALTNAME_INVALID', 'HOSTNAME_MISMATCH'].map(
      (code) =>
        [
          failure("Hostname/IP does not match certificate's altnames", code),
          /not accepted: Hostname.* altnames\. Use a certificate for the host db\.internal$/,
        ] as const,
    ),
    [
      failure('The server does not support SSL connections'),
      /does not offer TLS: .* Set ssl = on in postgresql\.conf/,
    ],
    [
      refusal('28P01', 'password authentication failed'),
      /refuses the connection: password .* Correct the user or the password/,
    ],
    [
      refusal(
        '28000',
        'no pg_hba.conf entry for host "1.2.3.4", user "app", database "fleet", no encryption',
      ),
      /refuses the connection: .* Add sslmode=verify-full to DATABASE_URL if PostgreSQL demands TLS/,
    ],
    [refusal('28000', 'role "app" does not exist'), /Correct the user in DATABASE_URL/],
    [refusal('28000', 'role "app" is not permitted to log in'), /alter role ROLE login/],
    [
      refusal('28000', 'connection requires a valid client certificate'),
      /Add sslcert=FILE and sslkey=FILE to DATABASE_URL/,
    ],
    [refusal('57P03', 'the database system is starting up'), /Wait until PostgreSQL has started/],
    [refusal('57P03', 'the database system is shutting down'), /shutting down\. Start PostgreSQL/],
    [
      refusal('57P03', 'the database system is not accepting connections'),
      /Set DATABASE_URL to the URL of the primary/,
    ],
    [refusal('XX000', 'out of luck'), /out of luck\. Look at the log of PostgreSQL/],
    [
      failure('error:0480006C:PEM routines::no start line', 'ERR_OSSL_PEM_NO_START_LINE'),
      /A file of certificates or keys .* cannot be used: .* PEM format/,
    ],
    [
      failure('x509 certificate routines::key values mismatch', 'ERR_OSSL_X509_KEY_VALUES_MISMATCH'),
      /cannot be used: .* Give sslkey the key that belongs to sslcert/,
    ],
    ...['ERR_OSSL_BAD_DECRYPT', 'ERR_OSSL_PEM_BAD_DECRYPT', 'ERR_OSSL_PEM_BAD_PASSWORD_READ'].map(
      (code) =>
        [failure('no', code), /cannot be used: no\. Give sslkey a key without a passphrase$/] as const,
    ),
    [
      failure('error:0A000418:tlsv1 alert unknown ca:\nalert number 48\n', 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA'),
      /The TLS handshake .* failed: .*unknown ca: alert number 48\. Compare the certificates and TLS versions/,
    ],
    [failure('There was an error establishing an SSL connection'), /The TLS handshake .* failed/],
    [
      failure(
        'Client network socket disconnected before secure TLS connection was established',
        'ECONNRESET',
      ),
      /The TLS handshake .* failed/,
    ],
    [
      failure('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string'),
      /refuses the login: SASL.* Put the password into DATABASE_URL/,
    ],
    [
      failure('SASL: SCRAM-SERVER-FINAL-MESSAGE: server signature does not match'),
      /refuses the login: SASL.* Correct the user or the password/,
    ],
    [
      failure('', 'ECONNREFUSED'),
      /PostgreSQL at db\.internal\/fleet does not answer: ECONNREFUSED\. Start PostgreSQL/,
    ],
  ]
  for (const [cause, text] of cases) {
    const { message, code } = cannotConnect(URL, cause)
    assert.match(message, text)
    assert.doesNotMatch(message, /sesame/)
    assert.equal(code, 'unavailable')
  }
})

test('if the URL names a file of authorities, an error for a certificate that none of them has signed names this file', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-ca-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'ca.pem')
  writeFileSync(file, 'garbage')
  const textFor = (code: string) =>
    cannotConnect(`${URL}?sslmode=verify-full&sslrootcert=${file}`, failure('no', code)).message
  for (const code of ['SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'])
    assert.ok(textFor(code).includes(`The certificate is not signed by an authority in ${file}. Put`), code)
  assert.match(textFor('ERR_TLS_CERT_ALTNAME_INVALID'), /Use a certificate for the host db\.internal$/)
  for (const code of UNUSABLE) assert.match(textFor(code), /Replace the certificate of PostgreSQL$/, code)
})

test('if a login fails in the client, the pool closes the connection, so that the process can end', async (t) => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)))
    socket.once('data', () => socket.write(demand('SCRAM-NEW')))
  })
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const url = `postgres://app:sesame@127.0.0.1:${(server.address() as AddressInfo).port}/fleet`
  await assert.rejects(openDatabase(t, url), /refuses the login: SASL: Only mechanism/)
  await eventually(() => assert.equal(sockets.size, 0), { what: 'the pool to close its connection' })
})

/** PostgreSQL's message that demands a login by this SASL mechanism. */
function demand(mechanism: string): Buffer {
  const body = Buffer.from(`....\0\0\0\n${mechanism}\0\0`)
  body.writeUInt32BE(body.length)
  return Buffer.concat([Buffer.from('R'), body])
}

test('a URL that cannot be used is rejected: it names a file that does not exist, or cannot be decoded', () => {
  for (const name of ['sslrootcert', 'sslcert', 'sslkey'])
    assert.throws(() => newClient(`${URL}?${name}=/nowhere/a.pem`), {
      code: 'invalid',
      message: `DATABASE_URL names a file that does not exist: ${name}=/nowhere/a.pem`,
    })
  assert.throws(() => newClient('postgres://app:%e9@h/d'), {
    message: 'DATABASE_URL cannot be used: URI malformed',
  })
})

test('a URL with a value that pg does not know is rejected, and the value is not repeated', () => {
  for (const word of ['false', 'no', 'disable', 'sesame'])
    assert.throws(() => newClient(`${URL}?ssl=${word}`), {
      code: 'invalid',
      message:
        'DATABASE_URL cannot be used: its value of ssl is not known. Write sslmode=disable or sslmode=verify-full instead',
    })
  for (const known of ['ssl=true', 'ssl=0', 'ssl=no-verify', 'port=6432'])
    assert.doesNotThrow(() => newClient(`${URL}?${known}`), known)
  for (const port of ['abc', '99999', '-1'])
    assert.throws(() => newClient(`${URL}?port=${port}`), {
      code: 'invalid',
      message: /^DATABASE_URL cannot be used: its port, .* must be a number from 1 to 65535$/,
    })
})

test('words for sslmode that mean verify-full are written so, because pg warns of them', () => {
  for (const word of ['prefer', 'require', 'verify-ca', 'verify-full'])
    assert.equal(withoutAliases(`${URL}?a=b&sslmode=${word}&c=d`), `${URL}?a=b&sslmode=verify-full&c=d`)
  for (const kept of ['sslmode=disable', 'sslmode=no-verify', 'uselibpqcompat=true&sslmode=require'])
    assert.equal(withoutAliases(`${URL}?${kept}`), `${URL}?${kept}`)
})
