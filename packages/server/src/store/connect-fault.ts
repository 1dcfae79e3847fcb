// Words a failure to connect to PostgreSQL, so that a person can act on it. Leaves out the password.
import pg from 'pg'
import { Retry } from '../errors.ts'
import { newClient, placeOf } from './client.ts'

/** `remedy` says what to do. */
type ConnectFault = { readonly found: string; readonly remedy: string }

// OpenSSL's names for certificates that are not accepted, and Node's for one of another host.
const CERTIFICATE = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|ERR_TLS_CERT_)/
const NO_TLS = 'The server does not support SSL connections' // pg gives this error no code

/** What to do if PostgreSQL refuses a connection, by its SQLSTATE. */
const REMEDIES: Readonly<Record<string, string>> = {
  '28P01': 'Correct the user or the password in DATABASE_URL',
  '28000': 'Correct the user in DATABASE_URL, or allow it to connect in pg_hba.conf',
  '3D000': 'Create the database, or correct its name in DATABASE_URL',
  '42501': 'As the owner of the database: grant connect on database NAME to ROLE',
  '57P03': 'Wait until PostgreSQL has started, then try again',
  '53300': 'Raise max_connections, or the connection limit of the role or the database',
}
const LOOK = 'Look at the log of PostgreSQL'
const TLS_ONLY =
  'Add sslmode=verify-full to DATABASE_URL if PostgreSQL demands TLS. Otherwise correct the user in DATABASE_URL, or allow it to connect in pg_hba.conf'
const START_IT = 'Start PostgreSQL, or set DATABASE_URL to the URL of another database'

export function cannotConnect(databaseUrl: string, cause: unknown): Retry {
  const { found, remedy } = connectFault(databaseUrl, cause)
  return new Retry('unavailable', `${found}. ${remedy}`, { cause, fields: { cannotConnect: true } })
}

export function connectFault(databaseUrl: string, cause: unknown): ConnectFault {
  const [place, { host, ssl }] = [placeOf(databaseUrl), newClient(databaseUrl)]
  const { code = '' } = (cause ?? {}) as NodeJS.ErrnoException
  const reason = reasonOf(cause)
  const mayDemandTls = code === '28000' && (ssl as unknown) === false && reason.includes('pg_hba.conf')
  if (cause instanceof pg.DatabaseError)
    return {
      found: `PostgreSQL at ${place} refuses the connection: ${reason}`,
      remedy: mayDemandTls ? TLS_ONLY : (REMEDIES[code] ?? LOOK),
    }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return {
      found: `The host ${host} of the database has no address: ${reason}`,
      remedy:
        'Correct the host in DATABASE_URL, or the name server. Special characters in the password must be percent-encoded',
    }
  if (CERTIFICATE.test(code))
    return {
      found: `The certificate of PostgreSQL at ${place} is not accepted: ${reason}`,
      remedy: `Use a certificate for the host ${host}. If your own authority has signed it, add sslrootcert=FILE to DATABASE_URL`,
    }
  if (code.startsWith('ERR_OSSL_'))
    return {
      found: `A file of certificates or keys in DATABASE_URL cannot be used: ${reason}`,
      remedy: 'Give sslcert, sslkey and sslrootcert files in PEM format',
    }
  if (reason === NO_TLS)
    return {
      found: `PostgreSQL at ${place} does not offer TLS: ${reason}`,
      remedy: 'Set ssl = on in postgresql.conf, with a certificate and its key',
    }
  return { found: `PostgreSQL at ${place} does not answer: ${reason}`, remedy: START_IT }
}

/** An error about several addresses has no text of its own, only a code. */
export function reasonOf(error: unknown): string {
  const { message, code } = (error ?? {}) as NodeJS.ErrnoException
  return message || code || 'no reason was given'
}
