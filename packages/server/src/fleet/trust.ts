// How far a pod may trust that the others still count it as alive (P3), by its own monotonic clock. The age of trust
// counts from *before* the last confirmed beat was sent: what the database wrote is at least as young.
//   age ≤ ttl − margin                                  trusted
//   older, or never confirmed                           fenced: it starts nothing; the others may bury it soon
// And whether it may judge others by the age of their beats: not until five beats after its own came through again.
// While the database was away nobody could beat, and who comes back first must not bury the rest.
import type { Clock } from '../lib/clock.ts'

export type Trust = {
  /** Milliseconds since before the last confirmed beat was sent; infinite if there was none. */
  ageMs(): number
  isFenced(): boolean
  mayJudge(): boolean
  confirm(sentMs: number): void
  /** A beat did not come through. */
  miss(): void
  /** The incarnation has ended: nothing is confirmed any more. */
  reset(): void
}
type TrustLimits = { readonly beatMs: number; readonly ttlMs: number }

const MARGIN = 0.2 // of the ttl: a second of five
const SETTLED_BEATS = 5

export function createTrust({ beatMs, ttlMs }: TrustLimits, clock: Pick<Clock, 'monotonicMs'>): Trust {
  const fencedMs = ttlMs * (1 - MARGIN)
  let confirmedMs: number | undefined
  let goodSinceMs: number | undefined
  const ageMs = () =>
    confirmedMs === undefined ? Number.POSITIVE_INFINITY : clock.monotonicMs() - confirmedMs
  const isFenced = () => ageMs() > fencedMs
  return {
    ageMs,
    isFenced,
    mayJudge: () =>
      !isFenced() && goodSinceMs !== undefined && clock.monotonicMs() - goodSinceMs >= SETTLED_BEATS * beatMs,
    confirm: (sentMs) => {
      if (confirmedMs !== undefined && sentMs - confirmedMs > fencedMs) goodSinceMs = undefined
      goodSinceMs ??= sentMs
      confirmedMs = sentMs
    },
    miss: () => void (goodSinceMs = undefined),
    reset: () => void (confirmedMs = goodSinceMs = undefined),
  }
}
