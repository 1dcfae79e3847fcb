// One connection to PostgreSQL outside the pool, for what must not share one: hints, beats, migrations.
import pg from 'pg'
import { Retry } from '../errors.ts'

type Options = {
  readonly databaseUrl: string
  readonly name: string
  readonly connectMs: number
  /** The most that we wait for a statement; without it one may take its time, and keep-alive finds a dead peer. */
  readonly statementMs?: number
}

const KEEP_ALIVE_MS = 10_000

/** A failure between statements is met by the next one: nothing is thrown beside it. */
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

/** Closes the socket without a farewell: a black-holed peer would not answer it. */
export function closeNow(client: pg.ClientBase): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}

/** The failure to connect as a person can act on it; who goes there, and by which password, is left out. */
export function cannotConnect(databaseUrl: string, cause: unknown): Retry {
  const { hostname, port, pathname } = new URL(databaseUrl)
  const place = `${decodeURIComponent(hostname) || 'localhost'}${port && `:${port}`}${pathname}`
  const text =
    cause instanceof pg.DatabaseError
      ? `PostgreSQL at ${place} refuses the connection: ${cause.message}`
      : `PostgreSQL does not answer at ${place}: start it, or set DATABASE_URL`
  return new Retry('unavailable', text, { cause })
}
