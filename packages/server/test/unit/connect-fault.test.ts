// What a person reads if PostgreSQL cannot be reached: the cause, and what to do about it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { newClient, withoutAliases } from '../../src/store/client.ts'
import { cannotConnect } from '../../src/store/connect-fault.ts'

const URL = 'postgres://app:sesame@db.internal/fleet'

test('a failure to connect says what failed and what to do, but not the password', () => {
  const failure = (message: string, code?: string) => Object.assign(new Error(message), { code })
  const refusal = (code: string, message: string) =>
    Object.assign(new pg.DatabaseError(message, 0, 'error'), { code })
  const cases: readonly (readonly [cause: unknown, text: RegExp])[] = [
    [
      failure('getaddrinfo ENOTFOUND db.internal', 'ENOTFOUND'),
      /The host db\.internal .* no address: .*Correct the host/,
    ],
    [failure('getaddrinfo EAI_AGAIN db.internal', 'EAI_AGAIN'), /no address: .*EAI_AGAIN/],
    [
      failure('self-signed certificate', 'DEPTH_ZERO_SELF_SIGNED_CERT'),
      /The certificate .* is not accepted: self-signed certificate\. .*sslrootcert=FILE/,
    ],
    [failure('unable to verify the first certificate', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'), /not accepted/],
    [failure('certificate has expired', 'CERT_HAS_EXPIRED'), /not accepted: certificate has expired/],
    [
      failure("Hostname/IP does not match certificate's altnames", 'ERR_TLS_CERT_ALTNAME_INVALID'),
      /not accepted: Hostname.* Use a certificate for the host db\.internal/,
    ],
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
    [refusal('28000', 'role "app" is not permitted to log in'), /Correct the user in DATABASE_URL/],
    [refusal('57P03', 'the database system is starting up'), /Wait until PostgreSQL has started/],
    [refusal('XX000', 'out of luck'), /out of luck\. Look at the log of PostgreSQL/],
    [
      failure('error:0480006C:PEM routines::no start line', 'ERR_OSSL_PEM_NO_START_LINE'),
      /A file of certificates or keys .* cannot be used: .* PEM format/,
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

test('words for sslmode that mean verify-full are written so, because pg warns of them', () => {
  for (const word of ['prefer', 'require', 'verify-ca', 'verify-full'])
    assert.equal(withoutAliases(`${URL}?a=b&sslmode=${word}&c=d`), `${URL}?a=b&sslmode=verify-full&c=d`)
  for (const kept of ['sslmode=disable', 'sslmode=no-verify', 'uselibpqcompat=true&sslmode=require'])
    assert.equal(withoutAliases(`${URL}?${kept}`), `${URL}?${kept}`)
})
