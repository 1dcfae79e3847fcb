// A transaction that is tried again until its deadline while that is safe: a row that another holds for long costs its
// waiters patience, not an error.
//
//   ended as        because of             then
//   committed                              answered
//   not committed   a lock, a deadlock     tried again
//   not committed   anything else          answered
//   unknown                                answered: a second try is its caller's to judge
//   unknown         `repeatsUnknown`       tried again, and told so: the work finds out what the first try did. From then
//                                          on nothing but a commit settles it, so that the answer at the deadline is unknown
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
  work: (query: Query, isRepeat: boolean) => Promise<T>,
  { repeatsUnknown = false } = {},
): Promise<Outcome<T>> {
  const endMs = clock.monotonicMs() + deadlineMs
  let doubt: Outcome<T> | undefined
  for (let failures = 0; ; failures += 1) {
    const leftMs = Math.max(1, Math.ceil(endMs - clock.monotonicMs()))
    const isRepeat = doubt !== undefined
    const outcome = await database.transaction((query) => work(query, isRepeat), { deadlineMs: leftMs })
    if (outcome.type === 'committed') return outcome
    if (outcome.type === 'unknown' && repeatsUnknown) doubt = outcome
    const pauseMs = backoffMs(BACKOFF, failures, random)
    const isWorthIt = doubt ? !isRefused(outcome) : isHeldUp(outcome)
    if (!isWorthIt || clock.monotonicMs() + pauseMs >= endMs) return doubt ?? outcome
    await clock.sleep(pauseMs)
  }
}

function isHeldUp(outcome: Outcome<unknown>): boolean {
  return outcome.type === 'not-committed' && outcome.failure === 'again'
}

function isRefused(outcome: Outcome<unknown>): boolean {
  return outcome.type === 'not-committed' && outcome.failure === 'refused'
}
