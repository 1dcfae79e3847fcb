// A claim and its surroundings, for tests that run a machine without a pod.
import type { Claim } from '../../src/task/claim.ts'
import type { Surroundings } from '../../src/task/runner.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { manualClock } from './clock.ts'
import { downstreamsOn } from './throttle.ts'

export const CLAIM: Claim = {
  id: '018f0000-0000-7000-8000-000000000000',
  track: 1,
  tenant: 1,
  priority: 3,
  attempt: 4,
  spent: 2,
  maxAttempts: 5,
  reason: null,
  input: null,
  position: 0,
  carry: null,
  waitedMs: 0,
}

/** The surroundings on a pod that is alive, takes new work, and writes every record at once. */
export function around(more: Partial<Surroundings> = {}): Surroundings {
  const clock = more.clock ?? manualClock()
  return {
    clock,
    random: { unit: () => 1, bytes: () => new Uint8Array() },
    cell: 0,
    log: createLog({ level: 'info', destination: { write: () => undefined } }),
    metrics: createMetrics(),
    ending: new AbortController(),
    pod: 1,
    isFenced: () => false,
    draining: new AbortController().signal,
    gaveUp: new AbortController().signal,
    record: async () => undefined,
    permits: downstreamsOn(clock).permits,
    ...more,
  }
}
