// How far this machine's clock is from the database's. A pod stamps the tokens that it mints with the
// database's time, and checks all tokens by its own clock.
import { SKEW_SECONDS } from '../identity/verify.ts'
import type { Clock } from '../lib/clock.ts'
import type { Query } from '../store/database.ts'
import type { Finding } from './finding.ts'

export type ClockFacts = {
  readonly roundTripMs: number
  /** Positive if this machine's clock is ahead. */
  readonly aheadMs: number
}

const SAMPLES = 5
const RED_MS = SKEW_SECONDS * 1_000
const WARN_MS = 5_000
const TIME = 'select extract(epoch from clock_timestamp())::float8 * 1000 as "databaseMs"'

/** The fastest of a few round trips says most: at worst, it is wrong by half of its time. */
export async function readClock(query: Query, clock: Clock): Promise<ClockFacts> {
  let best: ClockFacts = { roundTripMs: Infinity, aheadMs: 0 }
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    const [sentMs, startMs] = [clock.now(), clock.monotonicMs()]
    const [row] = await query<{ databaseMs: number }>(TIME)
    const roundTripMs = clock.monotonicMs() - startMs
    if (roundTripMs < best.roundTripMs)
      best = { roundTripMs, aheadMs: sentMs + roundTripMs / 2 - row!.databaseMs }
  }
  return best
}

export function judgeClock({ aheadMs }: ClockFacts): Finding {
  const [name, offMs] = ['clock', Math.abs(aheadMs)]
  const seconds = (offMs / 1_000).toFixed(1)
  if (offMs <= WARN_MS)
    return {
      state: 'ok',
      name,
      found: `the clocks of this machine and of the database differ by ${seconds} s`,
    }
  const direction = aheadMs > 0 ? 'ahead of' : 'behind'
  const found = `the clock of this machine is ${seconds} s ${direction} the clock of the database`
  return {
    state: offMs > RED_MS ? 'red' : 'warn',
    name,
    found,
    remedy: `Synchronize both clocks with NTP, for example with chrony: beyond ${SKEW_SECONDS} s, tokens are rejected or end too early`,
  }
}
