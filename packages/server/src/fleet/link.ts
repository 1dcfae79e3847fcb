// The connection for beats. A pod has a separate one, so that a full pool does not make it count as dead. Each statement is a
// transaction. A connection that failed or did not answer in time is closed at once, and the next beat opens another.
import type pg from 'pg'
import type { Clock } from '../lib/clock.ts'
import { valueOf, type Query } from '../store/database.ts'
import { closeNow, connect } from '../store/connection.ts'
import { runTransaction } from '../store/transaction.ts'

type Link = {
  /** If it rejects, it is unknown what was written. */
  use<T>(work: (query: Query) => Promise<T>): Promise<T>
  close(): void
}
type Deps = { readonly databaseUrl: string; readonly clock: Clock; readonly statementMs: number }

export function createLink({ databaseUrl, clock, statementMs }: Deps): Link {
  const limits = { clock, deadlineMs: statementMs, lockTimeoutMs: statementMs, idleMs: statementMs }
  let client: pg.Client | undefined
  const close = () => {
    if (client) closeNow(client)
    client = undefined
  }
  const queryOn =
    (link: pg.Client): Query =>
    async (text, values) => {
      const outcome = await runTransaction(link, (query) => query(text, values), {
        ...limits,
        access: 'write',
        admit: () => undefined, // no barrier: if its own commit does not succeed, its answer is not used
        release: () => undefined,
      })
      return valueOf(outcome, 'A beat did not come through') as never
    }
  return {
    close,
    use: async (work) => {
      try {
        return await work(
          queryOn(
            (client ??= await connect({ databaseUrl, name: 'fleetline beat', connectMs: statementMs })),
          ),
        )
      } catch (error) {
        close()
        throw error
      }
    },
  }
}
