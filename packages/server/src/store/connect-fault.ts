// Words a failure to connect to PostgreSQL, so that a person can act on it. Leaves out the password.
import pg from 'pg'
import { Retry } from '../errors.ts'
import { fileIn, newClient, placeOf } from './client.ts'

/** `remedy` says what to do. */
type ConnectFault = { readonly found: string; readonly remedy: string }

// OpenSSL's names for certificates that are not accepted, and Node's for one of another host.
const CERTIFICATE =
  /^(?:CERT_|CRL_|ERROR_IN_C|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|INVALID_|PATH_LENGTH_|HOSTNAME_MISMATCH|ERR_TLS_CERT_)/
/** The authority of the certificate is not among those that the client knows. */
const UNKNOWN_AUTHORITY = /^(?:UNABLE_TO_GET_ISSUER_|UNABLE_TO_VERIFY_|SELF_SIGNED_|DEPTH_ZERO_)/
const OTHER_HOST = ['ERR_TLS_CERT_ALTNAME_INVALID', 'HOSTNAME_MISMATCH']
const NO_ADDRESS = /^(?:ENOTFOUND|ENODATA|EAI_)/
// pg and Node give these errors no code of their own.
const NO_TLS = 'The server does not support SSL connections'
const NO_HANDSHAKE = /^There was an error establishing an SSL connection$|before secure TLS connection/
const NO_PASSWORD = /^SASL: .*client password must be/

const NO_PASSPHRASE = 'Give sslkey a key without a passphrase'
/** What to do about the files of certificates and keys, by the code of OpenSSL. */
const FILE_REMEDIES: Readonly<Record<string, string>> = {
  ERR_OSSL_X509_KEY_VALUES_MISMATCH: 'Give sslkey the key that belongs to sslcert',
  ERR_OSSL_BAD_DECRYPT: NO_PASSPHRASE,
  ERR_OSSL_PEM_BAD_DECRYPT: NO_PASSPHRASE,
  ERR_OSSL_PEM_BAD_PASSWORD_READ: NO_PASSPHRASE,
}
const START_IT = 'Start PostgreSQL, or set DATABASE_URL to the URL of another database'
/** What to do if PostgreSQL refuses a connection, by its SQLSTATE. */
const REMEDIES: Readonly<Record<string, string>> = {
  '28P01': 'Correct the user or the password in DATABASE_URL',
  '28000': 'Correct the user in DATABASE_URL, or allow it to connect in pg_hba.conf',
  '3D000': 'Create the database, or correct its name in DATABASE_URL',
  '42501': 'As the owner of the database: grant connect on database NAME to ROLE',
  '57P03': 'Wait until PostgreSQL has started, then try again',
  '53300': 'Raise max_connections, or the connection limit of the role or the database',
}
/** What to do where a SQLSTATE has several causes, by a part of PostgreSQL's text. */
const REMEDIES_BY_TEXT: readonly (readonly [part: string, remedy: string])[] = [
  ['requires a valid client certificate', 'Add sslcert=FILE and sslkey=FILE to DATABASE_URL'],
  [
    'is not permitted to log in',
    'Let the role log in: alter role ROLE login. Or name another user in DATABASE_URL',
  ],
  ['is shutting down', START_IT],
  ['is not accepting connections', 'Set DATABASE_URL to the URL of the primary'],
]
const READ_LOG = 'Look at the log of PostgreSQL'
const COMPARE_CLOCKS =
  'Compare the clocks of this machine and of the server. If both are right, replace the certificate of PostgreSQL'
const TLS_OR_USER =
  'Add sslmode=verify-full to DATABASE_URL if PostgreSQL demands TLS. Otherwise correct the user in DATABASE_URL, or allow it to connect in pg_hba.conf'

export function cannotConnect(databaseUrl: string, cause: unknown): Retry {
  const { found, remedy } = connectFault(databaseUrl, cause)
  return new Retry('unavailable', `${found}. ${remedy}`, { cause, fields: { cannotConnect: true } })
}

export function connectFault(databaseUrl: string, cause: unknown): ConnectFault {
  const [place, { host, ssl }] = [placeOf(databaseUrl), newClient(databaseUrl)]
  const { code = '' } = (cause ?? {}) as NodeJS.ErrnoException
  const reason = reasonOf(cause)
  if (cause instanceof pg.DatabaseError)
    return {
      found: `PostgreSQL at ${place} refuses the connection: ${reason}`,
      remedy: refusalRemedy(code, reason, (ssl as unknown) !== false),
    }
  if (reason.startsWith('SASL:'))
    return {
      found: `PostgreSQL at ${place} refuses the login: ${reason}`,
      remedy: NO_PASSWORD.test(reason)
        ? 'Put the password into DATABASE_URL'
        : 'Correct the user or the password in DATABASE_URL, or the method of authentication in pg_hba.conf',
    }
  if (NO_ADDRESS.test(code))
    return {
      found: `The host ${host} of the database has no address: ${reason}`,
      remedy:
        'Correct the host in DATABASE_URL, or the name server. Special characters in the password must be percent-encoded',
    }
  const silence = { found: `PostgreSQL at ${place} does not answer: ${reason}`, remedy: START_IT }
  return tlsFault(databaseUrl, code, reason) ?? silence
}

function tlsFault(databaseUrl: string, code: string, reason: string): ConnectFault | undefined {
  const place = placeOf(databaseUrl)
  if (CERTIFICATE.test(code))
    return {
      found: `The certificate of PostgreSQL at ${place} is not accepted: ${reason}`,
      remedy: certificateRemedy(databaseUrl, code),
    }
  if (code.startsWith('ERR_OSSL_'))
    return {
      found: `A file of certificates or keys in DATABASE_URL cannot be used: ${reason}`,
      remedy: FILE_REMEDIES[code] ?? 'Give sslcert, sslkey and sslrootcert files in PEM format',
    }
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO' || NO_HANDSHAKE.test(reason))
    return {
      found: `The TLS handshake with PostgreSQL at ${place} failed: ${reason}`,
      remedy: 'Compare the certificates and TLS versions of both sides, and read the log of PostgreSQL',
    }
  if (reason === NO_TLS)
    return {
      found: `PostgreSQL at ${place} does not offer TLS: ${reason}`,
      remedy: 'Set ssl = on in postgresql.conf, with a certificate and its key',
    }
  return undefined
}

function refusalRemedy(code: string, reason: string, usesTls: boolean): string {
  const known = REMEDIES_BY_TEXT.find(([part]) => reason.includes(part))
  if (known) return known[1]
  if (code === '28000' && !usesTls && reason.includes('pg_hba.conf')) return TLS_OR_USER
  return REMEDIES[code] ?? READ_LOG
}

function certificateRemedy(databaseUrl: string, code: string): string {
  if (code === 'CERT_HAS_EXPIRED') return 'Renew the certificate of PostgreSQL'
  if (code === 'CRL_HAS_EXPIRED') return 'Renew the list of revoked certificates'
  if (code === 'CERT_NOT_YET_VALID') return COMPARE_CLOCKS
  if (OTHER_HOST.includes(code)) return `Use a certificate for the host ${newClient(databaseUrl).host}`
  if (!UNKNOWN_AUTHORITY.test(code)) return 'Replace the certificate of PostgreSQL'
  const authorities = fileIn(databaseUrl, 'sslrootcert')
  if (!authorities)
    return 'If your own authority has signed the certificate, add sslrootcert=FILE to DATABASE_URL'
  return `The certificate is not signed by an authority in ${authorities}. Put the certificate of its authority there, in PEM format`
}

/** In one line: OpenSSL's texts have two. An error about several addresses has no text of its own, only a code. */
export function reasonOf(error: unknown): string {
  const { message, code } = (error ?? {}) as NodeJS.ErrnoException
  return (message || code || 'no reason was given').trim().replaceAll(/\s*\n\s*/g, ' ')
}
