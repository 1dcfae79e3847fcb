// Makes a client of pg from the URL of the database. A URL that cannot be used is rejected, and the error says why.
import pg from 'pg'
import { Rejected } from '../errors.ts'
import { SETTINGS } from '../settings.ts'

const USUAL_PORT = 5432
const LAST_PORT = 65_535
const FILES = ['sslrootcert', 'sslcert', 'sslkey']
// pg reads these words as verify-full, and warns in eight lines that its next major version will not.
const ALIASES = /([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/g

/** Reads the URL, its files of certificates and the environment (PGHOST, PGSSLMODE) as every connection does. */
export function newClient(
  databaseUrl: string,
  options: Omit<pg.ClientConfig, 'connectionString'> = {},
): pg.Client {
  let client: pg.Client
  try {
    client = new pg.Client({ ...options, connectionString: withoutAliases(databaseUrl) })
  } catch (cause) {
    throw new Rejected('invalid', urlFault(databaseUrl, cause as NodeJS.ErrnoException), { cause })
  }
  refuseUnknownWords(client)
  return client
}

/** pg accepts any text for `ssl` and `port`, and fails when it connects. */
function refuseUnknownWords({ ssl, port }: pg.Client): void {
  const { env } = SETTINGS.databaseUrl
  if (typeof ssl === 'string')
    throw new Rejected(
      'invalid',
      `${env} cannot be used: its value of ssl is not known. Write sslmode=disable or sslmode=verify-full instead`,
    )
  if (!(port >= 1 && port <= LAST_PORT))
    throw new Rejected(
      'invalid',
      `${env} cannot be used: its port, or PGPORT if it has none, must be a number from 1 to ${LAST_PORT}`,
    )
}

/** The same URL, with `sslmode=verify-full` for the words that mean it. */
export function withoutAliases(databaseUrl: string): string {
  return databaseUrl.includes('uselibpqcompat=true')
    ? databaseUrl
    : databaseUrl.replaceAll(ALIASES, '$1verify-full')
}

/** Host, port and database; neither user nor password. */
export function placeOf(databaseUrl: string): string {
  const { host, port, database = '' } = newClient(databaseUrl)
  return `${host}${port === USUAL_PORT ? '' : `:${port}`}/${database}`
}

/** pg reads the files that a URL names at once. */
function urlFault(databaseUrl: string, { code, path, message }: NodeJS.ErrnoException): string {
  const { env } = SETTINGS.databaseUrl
  const named = FILES.find((name) => path !== undefined && fileIn(databaseUrl, name) === path)
  if (named === undefined) return `${env} cannot be used: ${message}`
  const fault = code === 'ENOENT' ? 'does not exist' : 'cannot be read'
  return `${env} names a file that ${fault}: ${named}=${path}`
}

/** The file that the URL names in this parameter. */
export function fileIn(databaseUrl: string, name: string): string | null | undefined {
  return URL.parse(databaseUrl)?.searchParams.get(name)
}
