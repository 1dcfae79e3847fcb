// How much a downstream takes, as the leader learns it from what all pods tell. Pure. `inFlight`, `peak`, `ok`, `refused`
// are those of all pods since the last round, `spare` what some have and do not use while others lack; `ratio` compares the
// times to the first token with the least of before.
//
//   the first of these that is so        then the capacity
//   more than 1 % was refused            is cut: to .97 of what was in flight, by .03 at least and .3 at most; in the first
//                                        rounds in which anything is, to .97 of what was left of the burst
//   the ratio is over 1.35               is cut to .93 of what was in flight
//   it is not known yet                  stays unknown
//   the ratio is over 1.2, or any        stays
//   was refused
//   the peak is .85 of it less the       grows by .012 a call that went well; by .032 after 7 clean round trips, and by .1
//   spare                                after 11: at its limit it is refused long before, so that the limit must be gone
//
// Growth counts calls, not seconds: long calls would be tried far more often than they end. Of short ones, a round trip a
// round counts. Clean are round trips since the last cut or refusal.
import { medianOf } from '../../lib/median.ts'

export type Capacity = {
  /** Null until there was a sign of it. */
  readonly capacity: number | null
  readonly memory: Memory
}
type Memory = {
  /** Calls that went well since it was cut, or any was refused. */
  readonly okSince: number
  /** Whether anything was refused in the last round. */
  readonly isRefusing: boolean
  /** Whether these are the first rounds in which anything was. Undefined: as a release before wrote it. */
  readonly isFirst?: boolean
  readonly samples: readonly number[]
  /** When their window was opened. */
  readonly sinceMs: number
  readonly medians: readonly number[]
  readonly ratio: number
}
export type RoundSum = {
  readonly inFlight: number
  readonly peak: number
  /** What was left of the peak without what was refused, or is in flight at the end of the round. */
  readonly left: number
  readonly spare: number
  readonly ok: number
  readonly refused: number
  readonly firstsMs: readonly number[]
}

const REFUSED = { part: 0.01, to: 0.97, atMost: 0.7 }
const SLOW = { over: 1.35, to: 0.93, after: 1.25, hold: 1.2 }
const IN_USE = 0.85
/** The first whose clean round trips are behind it. */
const GROWTH = [
  { trips: 11, rate: 0.1 },
  { trips: 7, rate: 0.032 },
  { trips: 0, rate: 0.012 },
]
const WINDOW = { samples: 60, ms: 60_000, medians: 24 }

export const UNLEARNT: Capacity = {
  capacity: null,
  memory: { okSince: 0, isRefusing: false, isFirst: false, samples: [], sinceMs: 0, medians: [], ratio: 1 },
}

export function learnCapacity(before: Capacity, seen: RoundSum, nowMs: number): Capacity {
  const { inFlight, ok, refused } = seen
  const timed = compareLatency(before.memory, seen.firstsMs, nowMs)
  const memory = { ...timed, isRefusing: refused > 0, isFirst: false }
  const { capacity } = before
  const isFirst = capacity === null || (before.memory.isFirst === true && refused > 0)
  if (refused > REFUSED.part * (refused + ok)) {
    // A first burst is far above the limit, and over within a round or two: its mean says little, what is left of it all.
    const cut = isFirst
      ? REFUSED.to * Math.max(inFlight, seen.left)
      : Math.min(REFUSED.to * capacity, Math.max(REFUSED.to * inFlight, REFUSED.atMost * capacity))
    return { capacity: Math.max(1, cut), memory: { ...memory, isFirst, okSince: 0, samples: [] } }
  }
  if (memory.ratio > SLOW.over) {
    const cut = SLOW.to * Math.min(capacity ?? inFlight, inFlight)
    return { capacity: Math.max(1, cut), memory: { ...memory, okSince: 0, ratio: SLOW.after } }
  }
  if (refused > 0) return { capacity, memory: { ...memory, okSince: 0 } }
  if (capacity === null || memory.ratio > SLOW.hold) return { capacity, memory }
  const isInUse = seen.peak >= IN_USE * (Math.floor(capacity) - seen.spare)
  if (!isInUse) return { capacity, memory }
  const clean = Math.min(ok, capacity) // pods hear of it once a round, however many trips that was
  const okSince = memory.okSince + clean
  const { rate } = GROWTH.find(({ trips }) => okSince >= trips * capacity)!
  return { capacity: capacity + rate * clean, memory: { ...memory, okSince } }
}

/** A window closes with sixty samples. One that was not filled within a minute is forgotten, and nothing is slow. */
function compareLatency(memory: Memory, firstsMs: readonly number[], nowMs: number): Memory {
  const isOld = nowMs - memory.sinceMs > WINDOW.ms
  const kept = isOld ? { samples: [], sinceMs: nowMs, ratio: 1 } : memory
  const samples = [...kept.samples, ...firstsMs]
  if (samples.length < WINDOW.samples) return { ...memory, ...kept, samples }
  const median = medianOf(samples)
  const medians = [...memory.medians, median].slice(-WINDOW.medians)
  const least = Math.min(...medians)
  return { ...memory, samples: [], sinceMs: nowMs, medians, ratio: least > 0 ? median / least : 1 }
}
