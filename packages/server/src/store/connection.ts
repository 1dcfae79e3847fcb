// One connection to PostgreSQL outside the pool, for work that must not share one: hints, beats, migrations.
import pg from 'pg'
import { Retry } from '../errors.ts'

type Options = {
  readonly databaseUrl: string
  readonly name: string
  readonly connectMs: number
  /** Time limit for a statement. Without it a statement may take any time, and keep-alive detects a dead peer. */
  readonly statementMs?: number
}

const USUAL_PORT = 5432
const KEEP_ALIVE_MS = 10_000

/** If the connection breaks between two statements, nothing is thrown then: the next statement fails. */
export async function connect({ databaseUrl, name, connectMs, statementMs }: Options): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: connectMs,
    ...(statementMs === undefined ? {} : { query_timeout: statementMs }),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: name,
  })
  client.on('error', () => undefined)
  await client.connect().catch((cause: unknown) => {
    throw cannotConnect(databaseUrl, cause)
  })
  return client
}

/** Closes the socket without PostgreSQL's closing message: a peer behind a dead network would never answer it. */
export function closeNow(client: pg.ClientBase): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}

/** Words the failure so that a person can act on it. Leaves out the user and the password. */
export function cannotConnect(databaseUrl: string, cause: unknown): Retry {
  const place = placeOf(databaseUrl)
  const text =
    cause instanceof pg.DatabaseError
      ? `PostgreSQL at ${place} refuses the connection: ${cause.message}`
      : `PostgreSQL does not answer at ${place}: start it, or set DATABASE_URL to the URL of another database`
  return new Retry('unavailable', text, { cause, fields: { cannotConnect: true } })
}

/** Host, port and database; neither user nor password. */
export function placeOf(databaseUrl: string): string {
  const { host, port, database = '' } = new pg.Client({ connectionString: databaseUrl }) // reads PGHOST and ?host=, too
  return `${host}${port === USUAL_PORT ? '' : `:${port}`}/${database}`
}
