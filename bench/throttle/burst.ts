// W0: many long calls at once, on pods that have just started. If the provider has no limit: how long the last call waits until
// it is sent. If it has one: how many calls it rejects in the first burst, and how many after it.
import { chanceOf } from './chance.ts'
import type { Entrant } from './entrant.ts'
import { createTimeline } from './timeline.ts'
import { CALL } from './workloads.ts'

type Burst = {
  /** When the last accepted call was sent. */
  readonly lastBegunMs: number
  readonly refusedAtFirst: number
  /** Of the calls sent after the first burst. */
  readonly refusedLaterPercent: number
}

const PODS = 4
const CALLS_EACH = 200
const WHOLE_MS = { mean: 10_000, cv: 0.2 }
const FIRST_MS = 1_000 // calls sent before this are the first burst
const TICK_MS = 20
const END_MS = 600_000

export function simulateBurst({ open }: Entrant, takes: number, seed: number): Burst {
  const timeline = createTimeline()
  const calls = chanceOf(seed, 'calls')
  const waiting = new Map(Array.from({ length: PODS }, (_, n) => [n + 1, CALLS_EACH]))
  const counts = { inFlight: 0, lastBegunMs: 0, refusedAtFirst: 0, sentLater: 0, refusedLater: 0 }
  const hasRoom = () => counts.inFlight < takes
  const fleet = open({ timeline, chance: chanceOf(seed, 'pods'), hasRoom })

  const send = (pod: number) => {
    const sentAtMs = timeline.now()
    const isLater = sentAtMs >= FIRST_MS
    waiting.set(pod, waiting.get(pod)! - 1)
    fleet.sent(pod)
    if (isLater) counts.sentLater += 1
    if (!hasRoom()) {
      counts[isLater ? 'refusedLater' : 'refusedAtFirst'] += 1
      return timeline.at(sentAtMs + CALL.refusedMs, () => {
        waiting.set(pod, waiting.get(pod)! + 1) // a rejected call is sent again
        fleet.ended(pod, { kind: 'refused', sentAtMs, waitMs: undefined })
      })
    }
    counts.inFlight += 1
    counts.lastBegunMs = sentAtMs
    const wholeMs = calls.spread(WHOLE_MS.mean, WHOLE_MS.cv)
    const firstMs = Math.min(wholeMs, calls.spread(CALL.firstMs.mean, CALL.firstMs.cv))
    timeline.at(sentAtMs + wholeMs, () => {
      counts.inFlight -= 1
      fleet.ended(pod, { kind: 'ok', sentAtMs, firstMs, wholeMs })
    })
  }
  const tick = () => {
    for (const pod of waiting.keys()) while (waiting.get(pod)! > 0 && fleet.maySend(pod)) send(pod)
    timeline.at(timeline.now() + TICK_MS, tick)
  }
  for (const pod of waiting.keys()) fleet.join(pod)
  timeline.at(0, tick)
  timeline.run(END_MS)
  const { lastBegunMs, refusedAtFirst, sentLater, refusedLater } = counts
  return { lastBegunMs, refusedAtFirst, refusedLaterPercent: (100 * refusedLater) / Math.max(1, sentLater) }
}
