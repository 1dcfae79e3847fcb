// Limits how often something happens, by a token bucket for each name. A bucket holds `burst` tokens and gets `perSecond` of them
// back each second. So in any T seconds, at most burst + perSecond * T tokens of a name are taken.
//
// A bucket is one number: the time at which it is full again. An empty bucket fills in `burst / perSecond` seconds, so a name that was
// unused for so long can be forgotten. Names are kept in two maps. A name that is used moves to the younger map. After that time
// the older map is dropped, and the younger one takes its place. This also happens when the younger map has `most / 2` names; then
// some buckets are full too early.
import type { Clock } from './clock.ts'

export type Rates = {
  /** Takes a token. Returns 0, or, if there is none, the ms until there is one. */
  take(name: string): number
  /** Takes nothing. Returns 0 if there is a token, otherwise the ms until there is one. */
  waitMs(name: string): number
}
type Options = {
  readonly perSecond: number
  readonly burst: number
  /** How many names are kept at most. */
  readonly most: number
  readonly clock: Clock
}

const ROUNDING_MS = 1e-6 // sums of fractions are not exact

export function createRates({ perSecond, burst, most, clock }: Options): Rates {
  const tokenMs = 1_000 / perSecond
  let [older, younger] = [new Map<string, number>(), new Map<string, number>()]
  let turnedMs = clock.monotonicMs()
  const fullAtMs = (name: string, nowMs: number) =>
    Math.max(younger.get(name) ?? older.get(name) ?? nowMs, nowMs)
  const waitAt = (name: string, nowMs: number) => {
    const missingMs = fullAtMs(name, nowMs) - nowMs + tokenMs - burst * tokenMs
    return Math.max(0, Math.ceil(missingMs - ROUNDING_MS))
  }
  const turn = (nowMs: number) => {
    if (younger.size < most / 2 && nowMs < turnedMs + burst * tokenMs) return
    ;[older, younger, turnedMs] = [younger, new Map(), nowMs]
  }
  return {
    waitMs: (name) => waitAt(name, clock.monotonicMs()),
    take: (name) => {
      const nowMs = clock.monotonicMs()
      const waitMs = waitAt(name, nowMs)
      if (waitMs > 0) return waitMs
      const nextMs = fullAtMs(name, nowMs) + tokenMs
      turn(nowMs)
      younger.set(name, nextMs)
      return 0
    },
  }
}
