// A transaction that is tried again while it ends as not committed because of a lock or a deadlock, until its deadline:
// a row that another holds for long costs its waiters patience, not an error. Every other outcome is answered as it is;
// an unknown one above all, since a second try of it is its caller's to judge.
import { backoffMs } from '../lib/backoff.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Database, Outcome, Query } from './database.ts'

type Deps = {
  readonly database: Pick<Database, 'transaction'>
  readonly clock: Clock
  readonly random: Random
  readonly deadlineMs: number
}

const BACKOFF = { baseMs: 5, capMs: 200 }

export async function untilCommitted<T>(
  { database, clock, random, deadlineMs }: Deps,
  work: (query: Query) => Promise<T>,
): Promise<Outcome<T>> {
  const endMs = clock.monotonicMs() + deadlineMs
  for (let failures = 0; ; failures += 1) {
    const leftMs = Math.max(1, Math.ceil(endMs - clock.monotonicMs()))
    const outcome = await database.transaction(work, { deadlineMs: leftMs })
    const isWorthIt = outcome.type === 'not-committed' && outcome.failure === 'again'
    const pauseMs = backoffMs(BACKOFF, failures, random)
    if (!isWorthIt || clock.monotonicMs() + pauseMs >= endMs) return outcome
    await clock.sleep(pauseMs)
  }
}
