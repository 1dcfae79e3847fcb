// Creates and reads sessions by SQL, without the code under test.
import { randomBytes } from 'node:crypto'
import { formatId, parseId, uuidV7 } from '@fleetline/protocol'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { createAppender, type Appender } from '../../src/session/append.ts'
import type { SessionKey } from '../../src/session/items.ts'
import { valueOf, type Database } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import type { Entry, Log } from './history.ts'

type Transactions = Pick<Database, 'transaction'>

export async function sessionFor(database: Transactions, tenant = 'dev'): Promise<SessionKey> {
  const session = uuidV7(Date.now(), randomBytes(10))
  const outcome = await database.transaction(async (query) => {
    await query('insert into fleetline.tenants (name) values ($1) on conflict do nothing', [tenant])
    return query<{ tenant: number }>(
      `insert into fleetline.sessions (tenant, id)
       select id, $2 from fleetline.tenants where name = $1 returning tenant`,
      [tenant, session],
    )
  })
  return { tenant: valueOf(outcome, 'no session')[0]!.tenant, session }
}

export function idOf({ session }: SessionKey): string {
  return formatId('session', 0, session)
}

/** Returns the key of a session of the only tenant. */
export function keyOf(id: string): SessionKey {
  return { tenant: 1, session: parseId('session', id)!.uuid }
}

export async function logOf(database: Transactions, { tenant, session }: SessionKey): Promise<Log> {
  const outcome = await database.transaction(async (query) => {
    const [row] = await query<{ head: number }>(
      'select head from fleetline.sessions where tenant = $1 and id = $2',
      [tenant, session],
    )
    const entries = await query<Entry>(
      'select seq, id, digest from fleetline.messages where tenant = $1 and session = $2 order by seq',
      [tenant, session],
    )
    return { head: row!.head, entries }
  })
  return valueOf(outcome, 'no log')
}

/** The write path of one pod, with a deadline that is long enough for a busy machine. */
export function appenderOn(database: Transactions, { deadlineMs = 120_000 } = {}): Appender {
  return createAppender({
    database,
    clock: systemClock(),
    random: systemRandom(),
    cell: 0,
    deadlineMs,
    metrics: createMetrics(),
    onGrown: () => undefined,
    onTurns: () => undefined,
    onEnded: () => undefined,
    onRead: () => undefined,
    onMembershipChanged: () => undefined,
  })
}
