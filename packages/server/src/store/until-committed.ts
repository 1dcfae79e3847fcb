// Repeats a transaction until its deadline, while that is safe. If another transaction holds a row for long, callers wait
// instead of failing.
//
//   ended as        because of               then
//   committed                                returned
//   not committed   a lock, a deadlock       retried
//   not committed   a lock, `lockTimeoutMs`  returned: the caller has a better way to wait
//   not committed   anything else            returned
//   unknown                                  returned: the caller decides whether to retry
//   unknown         `repeatsUnknown`         retried with `isRepeat`: the work finds out what the first try did. From then on
//                                            only a commit is certain: at the deadline, `unknown` is returned
import { backoffMs } from '../lib/backoff.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Outcome, Query, Transactions } from './database.ts'
import { isLockTimeout } from './sqlstate.ts'

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly deadlineMs: number
}

type Options = { readonly repeatsUnknown?: boolean; readonly lockTimeoutMs?: number }

const BACKOFF = { baseMs: 5, capMs: 200 }

export async function untilCommitted<T>(
  { database, clock, random, deadlineMs }: Deps,
  work: (query: Query, isRepeat: boolean) => Promise<T>,
  { repeatsUnknown = false, lockTimeoutMs }: Options = {},
): Promise<Outcome<T>> {
  const endMs = clock.monotonicMs() + deadlineMs
  let doubt: Outcome<T> | undefined
  for (let failures = 0; ; failures += 1) {
    const leftMs = Math.max(1, Math.ceil(endMs - clock.monotonicMs()))
    const isRepeat = doubt !== undefined
    const limits = { deadlineMs: leftMs, ...(lockTimeoutMs !== undefined && { lockTimeoutMs }) }
    const outcome = await database.transaction((query) => work(query, isRepeat), limits)
    if (outcome.type === 'committed') return outcome
    if (outcome.type === 'unknown' && repeatsUnknown) doubt = outcome
    const pauseMs = backoffMs(BACKOFF, failures, random)
    const isWorthIt = doubt ? !isRefused(outcome) : isHeldUp(outcome, lockTimeoutMs !== undefined)
    if (!isWorthIt || clock.monotonicMs() + pauseMs >= endMs) return doubt ?? outcome
    await clock.sleep(pauseMs)
  }
}

function isHeldUp(outcome: Outcome<unknown>, endsAtLocks: boolean): boolean {
  if (outcome.type !== 'not-committed' || outcome.failure !== 'again') return false
  return !(endsAtLocks && isLockTimeout(outcome.error))
}

function isRefused(outcome: Outcome<unknown>): boolean {
  return outcome.type === 'not-committed' && outcome.failure === 'refused'
}
