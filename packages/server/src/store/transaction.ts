// Runs one transaction on one connection.
//
//   phase       event                                           outcome
//   working     failure, deadline, lost connection              not-committed (rolled back, or the connection is closed)
//   working     the server is a standby, or takes no writes     not-committed (the connection is closed)
//   committing  answer COMMIT                                   committed
//   committing  answer COMMIT after a cancelled standby wait    unknown
//   committing  answer ROLLBACK, or an error of the data        not-committed
//   committing  an error of the server itself (57, 58, XX)      unknown
//   committing  lost connection, deadline                       unknown
//
// A connection in COMMIT is never cancelled: PostgreSQL has no timeout for the wait for a standby, and cancelling that wait
// makes an unreplicated commit visible. At the deadline the caller gets its answer; the connection is closed when COMMIT
// returns. All settings apply to this transaction only, so a pooler may run the next one on another connection. PostgreSQL
// enforces limits, too: a pod that hangs or is cut off keeps no lock for longer than `idleMs`.
import pg from 'pg'
import type { Clock } from '../lib/clock.ts'
import type { Outcome, Query } from './outcome.ts'
import { classify, isOfServerItself, isReadOnlyServer, type FailureClass } from './sqlstate.ts'

export type TransactionLimits = {
  readonly clock: Clock
  readonly deadlineMs: number
  readonly lockTimeoutMs: number
  /** How long PostgreSQL waits for the next statement, or for the pod to accept its answer. */
  readonly idleMs: number
}
type Options = TransactionLimits & {
  readonly access: 'read' | 'write'
  /** Undefined if this server may be read from now. Otherwise a promise that resolves when it may. */
  readonly admit: (incarnation: string) => Promise<void> | undefined
  /** Called once, when this transaction no longer needs the connection. */
  readonly release: (close: boolean) => void
}
type Server = { readonly isReadOnly: boolean; readonly incarnation: string }

export const LATE = new Error('The deadline of the transaction has passed')
/** The server answers, but must not be used now. */
export class Unusable extends Error {}
export const STANDBY = new Unusable('The server is a standby or takes no writes')
const LOST = new Error('The connection to PostgreSQL was lost')
const UNREPLICATED = new Error('The wait for a standby was cut short: committed here, perhaps nowhere else')

// A recovery after a crash keeps the start time but resets the statistics, so both together identify a server start.
const WHO = `
  select pg_is_in_recovery() or current_setting('default_transaction_read_only')::bool as "isReadOnly",
         concat(pg_postmaster_start_time(), ' ', (select stats_reset from pg_stat_bgwriter)) as incarnation`

export async function runTransaction<T>(
  client: pg.ClientBase,
  work: (query: Query) => Promise<T>,
  { admit, release, ...options }: Options,
): Promise<Outcome<T>> {
  const { within, end } = guard(client, options)
  const giveBack = (close: boolean) => {
    end()
    release(close)
  }
  const query: Query = async (text, values) => (await within(client.query(text, values && [...values]))).rows
  let value: T
  try {
    for (;;) {
      const server = await begin(client, within, options)
      if (server.isReadOnly) throw STANDBY
      const admitted = admit(server.incarnation)
      if (!admitted) break
      await query('rollback')
      await within(admitted)
    }
    value = await within(work(query))
  } catch (error) {
    const rolledBack = await within(client.query('rollback')).then(
      () => true,
      () => false,
    )
    const isStandby = error === STANDBY || (options.access === 'write' && isReadOnlyServer(error))
    giveBack(!rolledBack || isStandby)
    return { type: 'not-committed', failure: failureOf(error), error: isStandby ? STANDBY : error }
  }
  return commit(client, value, { within, giveBack })
}

type Within = <V>(step: Promise<V>) => Promise<V>
type Guard = { readonly within: Within; readonly end: () => void }

/** Each step ends at the deadline, or when the connection is lost. */
function guard(
  client: pg.ClientBase,
  { clock, deadlineMs }: Pick<TransactionLimits, 'clock' | 'deadlineMs'>,
): Guard {
  const over = new AbortController()
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => undefined) // handled by the race below, or no longer needed
  const onError = (cause: Error) => broken.reject(new Error(LOST.message, { cause }))
  client.on('error', onError)
  const late = clock.sleep(deadlineMs, over.signal).then(() => Promise.reject(LATE))
  late.catch(() => undefined)
  return {
    within: (step) => {
      step.catch(() => undefined) // it may fail when nobody waits for it
      return Promise.race([step, late, broken.promise])
    },
    end: () => {
      over.abort(LATE)
      client.off('error', onError)
    },
  }
}

/** One round trip. `tcp_user_timeout` makes the server close a socket that accepts no data: no statement timeout does. */
async function begin(
  client: pg.ClientBase,
  within: Within,
  { access, deadlineMs, lockTimeoutMs, idleMs }: Omit<TransactionLimits, 'clock'> & Pick<Options, 'access'>,
): Promise<Server> {
  const text = `begin${access === 'read' ? ' read only' : ''};
    set local lock_timeout = ${lockTimeoutMs}; set local statement_timeout = ${deadlineMs};
    set local idle_in_transaction_session_timeout = ${idleMs}; set local tcp_user_timeout = ${idleMs};${WHO}`
  const began = client.query(text).catch((cause: unknown) => {
    throw cause instanceof pg.DatabaseError ? cause : new Error(LOST.message, { cause }) // the connection broke before it answered
  })
  const results = (await within(began)) as unknown as pg.QueryResult<Server>[]
  return results.at(-1)!.rows[0]!
}

type Ending = { readonly within: Within; readonly giveBack: (close: boolean) => void }

async function commit<T>(client: pg.ClientBase, value: T, { within, giveBack }: Ending): Promise<Outcome<T>> {
  let unreplicated = false
  const onNotice = (notice: { routine?: string | undefined }) => {
    unreplicated ||= notice.routine === 'SyncRepWaitForLSN' // the text of a notice is translated, this name is not
  }
  client.on('notice', onNotice)
  const answer = client.query('commit')
  try {
    const { command } = await within(answer)
    client.off('notice', onNotice)
    giveBack(false)
    if (unreplicated) return { type: 'unknown', error: UNREPLICATED }
    if (command === 'COMMIT') return { type: 'committed', value }
    return {
      type: 'not-committed',
      failure: 'refused',
      error: new Error('A statement had failed: rolled back'),
    }
  } catch (error) {
    const failure = classify(error)
    const isUnknown = failure === 'lost' || isOfServerItself(error)
    if (error === LATE) void answer.catch(() => undefined).finally(() => giveBack(true))
    else giveBack(isUnknown)
    return isUnknown ? { type: 'unknown', error } : { type: 'not-committed', failure, error }
  }
}

function failureOf(error: unknown): FailureClass {
  if (error instanceof Unusable) return 'later'
  const isOfServer =
    error instanceof pg.DatabaseError || (error as Error | undefined)?.message === LOST.message
  return isOfServer || error === LATE ? classify(error) : 'refused'
}
