// For how long pods have been silent, by this pod's own monotonic clock: since the last look at which the beat of a pod was
// another than at the look before. Only whether a beat has changed counts, never what time it tells: the clock of the
// database may be set forward or back. Never more than the truth: it counts from the answer of the first look that saw a
// beat to the question of the last one.
import type { Clock } from '../lib/clock.ts'

export type Beat = { readonly id: number; readonly beat: string }
export type Silence = {
  /** `sentMs`: before the look was sent. Answers the silence of each, in their order. */
  saw(beats: readonly Beat[], sentMs: number): number[]
}

export function createSilence(clock: Pick<Clock, 'monotonicMs'>): Silence {
  let known = new Map<number, { readonly beat: string; readonly sinceMs: number }>()
  return {
    saw: (beats, sentMs) => {
      const nowMs = clock.monotonicMs()
      const seen = beats.map(({ id, beat }) => {
        const before = known.get(id)
        return { id, beat, sinceMs: before?.beat === beat ? before.sinceMs : nowMs }
      })
      known = new Map(seen.map((one) => [one.id, one]))
      return seen.map(({ sinceMs }) => Math.max(0, sentMs - sinceMs))
    },
  }
}
