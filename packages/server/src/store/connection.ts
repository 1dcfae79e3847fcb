// One connection to PostgreSQL outside the pool, for work that must not share one: hints, beats, migrations.
import type pg from 'pg'
import { newClient } from './client.ts'
import { cannotConnect } from './connect-fault.ts'

type Options = {
  readonly databaseUrl: string
  readonly name: string
  readonly connectMs: number
  /** Time limit for a statement. Without it a statement may take any time, and keep-alive detects a dead peer. */
  readonly statementMs?: number
}

const KEEP_ALIVE_MS = 10_000

/** If the connection breaks between two statements, nothing is thrown then: the next statement fails. */
export async function connect({ databaseUrl, name, connectMs, statementMs }: Options): Promise<pg.Client> {
  const client = newClient(databaseUrl, {
    connectionTimeoutMillis: connectMs,
    ...(statementMs === undefined ? {} : { query_timeout: statementMs }),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: name,
  })
  client.on('error', () => undefined)
  await client.connect().catch((cause: unknown) => {
    closeNow(client) // pg leaves the socket open if it cannot use a file of certificates
    throw cannotConnect(databaseUrl, cause)
  })
  return client
}

/** Closes the socket without PostgreSQL's closing message: a peer behind a dead network would never answer it. */
export function closeNow(client: pg.ClientBase): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}
