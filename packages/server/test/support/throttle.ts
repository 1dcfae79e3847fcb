// Downstreams without a fleet.
import type { Clock } from '../../src/lib/clock.ts'
import type { ClaimAsk } from '../../src/task/claim.ts'
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts'
import { createDownstreams, type Downstreams } from '../../src/throttle/pod/downstreams.ts'
import type { HeardOffer } from '../../src/throttle/fleet/lease.ts'
import type { Mode } from '../../src/throttle/definition.ts'

type Options = { readonly throttle?: Mode; readonly metrics?: Metrics; readonly offer?: Partial<HeardOffer> }

/** Acts like a fleet that has learnt nothing: each downstream may use what it learns itself. `offer` changes that. */
export function downstreamsOn(
  clock: Clock,
  { throttle = 'enforce', metrics = createMetrics(), offer = {} }: Options = {},
): Downstreams {
  const free = { gen: 1, isLearnt: false, isClean: true, share: null, safe: 1, leftMs: 1e9, pauseMs: 0 }
  const random = { unit: () => 0, bytes: (count: number) => new Uint8Array(count) }
  const offerAll = () => {
    for (const limiter of downstreams.inUse().values())
      limiter.applyOffer({ ...free, ...offer }, clock.monotonicMs())
  }
  const downstreams = createDownstreams({
    clock,
    random,
    metrics,
    defined: [],
    throttle,
    turnSlots: 1_000,
    onNews: offerAll,
  })
  return downstreams
}

/** Returns what a pod asks for when its tracks call no downstream. */
export function asksFor(tracks: readonly number[], most: number): ClaimAsk[] {
  return tracks.map((track) => ({ track, group: 0, room: most }))
}
