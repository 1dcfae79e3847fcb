// Learns how many calls a downstream takes. The leader does this from the reports of all pods. Pure. `inFlight`, `peak`, `ok`
// and `refused` are sums over all pods since the last round. `spare` is what some pods do not use while others lack it.
// `ratio` compares the times to the first token with the lowest before.
//
//   the first of these that applies      then the capacity
//   more than 1 % was refused            is cut to .97 of the calls in flight, by at least .03 and at most .3; in the first
//                                        rounds with refusals, to .97 of what was left of the burst
//   the ratio is over 1.35               is cut to .93 of the calls in flight
//   it is not known yet                  stays unknown
//   the ratio is over 1.2, or any        stays
//   call was refused
//   the peak is at least .85 of (the     grows by .012 per successful call; by .032 after 7 clean round trips, and by .1
//   capacity less the spare)             after 11: a provider at its limit would have refused calls long before, so the
//                                        limit must be gone
//
// Growth counts calls, not seconds: with long calls, growth by time would probe far more often than calls end. With short
// calls, one round trip per round counts. Round trips since the last cut or refusal are clean.
import { medianOf } from '../../lib/median.ts'

export type Capacity = {
  /** Null until there is a sign of a limit. */
  readonly capacity: number | null
  readonly memory: Memory
}
type Memory = {
  /** Successful calls since the last cut or refusal. */
  readonly okSince: number
  /** Whether any call was refused in the last round. */
  readonly isRefusing: boolean
  /** Whether these are the first rounds with refusals. Undefined in a row of the previous release. */
  readonly isFirst?: boolean
  readonly samples: readonly number[]
  /** When the window of the samples opened. */
  readonly sinceMs: number
  readonly medians: readonly number[]
  readonly ratio: number
}
export type RoundSum = {
  readonly inFlight: number
  readonly peak: number
  /** The peak without the refused calls, or the calls in flight at the end of the round if there are more. */
  readonly left: number
  readonly spare: number
  readonly ok: number
  readonly refused: number
  readonly firstsMs: readonly number[]
}

const REFUSED = { part: 0.01, to: 0.97, atMost: 0.7 }
const SLOW = { over: 1.35, to: 0.93, after: 1.25, hold: 1.2 }
const IN_USE = 0.85
/** The first entry with enough clean round trips applies. */
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
    // A first burst is far above the limit and ends within a round or two. Its mean says little about the limit. The calls that
    // are left of it were accepted.
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
  const clean = Math.min(ok, capacity) // pods learn of growth once a round, so at most one round trip a round counts
  const okSince = memory.okSince + clean
  const { rate } = GROWTH.find(({ trips }) => okSince >= trips * capacity)!
  return { capacity: capacity + rate * clean, memory: { ...memory, okSince } }
}

/** A window closes with sixty samples. If it is not full within a minute, it is dropped and the ratio is 1 again. */
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
