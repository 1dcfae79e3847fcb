// Measures how long pods have been silent, by this pod's own monotonic clock. Silence counts from the last look that found a
// changed beat. Only the change counts, never the time in the beat, because the database's clock may be set forward or back.
// The result is never too long: it runs from the answer of the first look that saw a beat to the sending of the last look.
import type { Clock } from '../lib/clock.ts'

export type Beat = { readonly id: number; readonly beat: string }
export type Silence = {
  /** `sentMs`: the time just before the look was sent. Returns the silence of each pod, in the same order. */
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
