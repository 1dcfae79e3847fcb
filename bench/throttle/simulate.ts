// One run: pods that always have more to send, an entrant that limits them, and a provider that accepts a number of concurrent
// calls and rejects the others. The same seed gives the same bytes. The nth accepted call takes equally long, whoever sent it.
import type { CallEnd } from '../../packages/server/src/throttle/pod/window.ts'
import { chanceOf } from './chance.ts'
import type { Entrant } from './entrant.ts'
import { createTimeline } from './timeline.ts'
import { CALL, type Variant, type Workload } from './workloads.ts'

export type Run = {
  readonly sent: number
  readonly refused: number
  readonly done: number
  /** Calls that a pod sent before its Retry-After was over. */
  readonly insideRetryAfter: number
  readonly samples: readonly Sample[]
}
export type Sample = {
  readonly ms: number
  readonly capacity: number
  readonly limit: number
  readonly inFlight: number
  /** Rejected calls per second, since the last sample. */
  readonly refused: number
}

const TICK_MS = 20 // a gate may open without an event, because time has passed
const SAMPLE_MS = 2_000

export function simulate(
  { capacityAt, podsAt, endMs }: Workload,
  { retryAfterMs }: Variant,
  { open }: Entrant,
  seed: number,
): Run {
  const timeline = createTimeline()
  const calls = chanceOf(seed, 'calls')
  const counts = { sent: 0, refused: 0, done: 0, insideRetryAfter: 0, inFlight: 0 }
  const quietUntilMs = new Map<number, number>()
  const hasRoom = () => counts.inFlight < Math.floor(capacityAt(timeline.now()))
  const fleet = open({ timeline, chance: chanceOf(seed, 'pods'), hasRoom })
  const samples: Sample[] = []

  const send = (pod: number) => {
    const sentAtMs = timeline.now()
    fleet.sent(pod)
    counts.sent += 1
    if (sentAtMs < (quietUntilMs.get(pod) ?? 0)) counts.insideRetryAfter += 1
    if (!hasRoom()) return refuse(pod, sentAtMs)
    counts.inFlight += 1
    const wholeMs = calls.spread(CALL.wholeMs.mean, CALL.wholeMs.cv)
    const firstMs = Math.min(wholeMs, calls.spread(CALL.firstMs.mean, CALL.firstMs.cv))
    timeline.at(sentAtMs + wholeMs, () => {
      counts.inFlight -= 1
      counts.done += 1
      end(pod, { kind: 'ok', sentAtMs, firstMs, wholeMs })
    })
  }
  const refuse = (pod: number, sentAtMs: number) => {
    counts.refused += 1
    timeline.at(sentAtMs + CALL.refusedMs, () => {
      if (retryAfterMs !== undefined) quietUntilMs.set(pod, timeline.now() + retryAfterMs)
      end(pod, { kind: 'refused', sentAtMs, waitMs: retryAfterMs })
    })
  }
  const end = (pod: number, how: CallEnd) => {
    fleet.ended(pod, how)
    fill(pod)
  }
  const fill = (pod: number) => {
    while (fleet.maySend(pod)) send(pod)
  }
  const joined: number[] = []
  const tick = () => {
    while (joined.length < podsAt(timeline.now())) {
      fleet.join(joined.length + 1)
      joined.push(joined.length + 1)
    }
    const first = Math.floor(timeline.now() / TICK_MS) % joined.length // no pod is always the first
    for (let n = 0; n < joined.length; n += 1) fill(joined[(first + n) % joined.length]!)
    timeline.at(timeline.now() + TICK_MS, tick)
  }
  const look = (before: number) => () => {
    const refused = ((counts.refused - before) * 1_000) / SAMPLE_MS
    const capacity = Math.floor(capacityAt(timeline.now()))
    samples.push({ ms: timeline.now(), capacity, limit: fleet.limit(), inFlight: counts.inFlight, refused })
    timeline.at(timeline.now() + SAMPLE_MS, look(counts.refused))
  }
  timeline.at(0, tick)
  timeline.at(SAMPLE_MS, look(0))
  timeline.run(endMs)
  const { inFlight: _inFlight, ...totals } = counts
  return { ...totals, samples }
}
