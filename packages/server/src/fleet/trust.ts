// How far a pod may trust that the others still count it as alive (P3), by its own monotonic clock. The age counts from
// *before* the last confirmed beat was sent, so the beat in the database is at least as young.
//   age ≤ ttl − margin                                  trusted
//   older, or never confirmed                           fenced: it starts nothing; the leader may soon count it as dead
// It also says whether the pod may judge others by the age of their beats: only after its own beats have succeeded for five
// beat intervals. While the database was away nobody could beat, and the first pod to return must not bury the others.
import type { Clock } from '../lib/clock.ts'

export type Trust = {
  /** Milliseconds since just before the last confirmed beat was sent; infinite if there was none. */
  ageMs(): number
  isFenced(): boolean
  mayJudge(): boolean
  confirm(sentMs: number): void
  /** Notes that a beat failed. */
  miss(): void
  /** Forgets all confirmed beats, because the incarnation has ended. */
  reset(): void
}
type TrustLimits = { readonly beatMs: number; readonly ttlMs: number }

const MARGIN = 0.2 // of the ttl: one second of five
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
