// The parts of a door without a pod.
import type { Route } from '../../src/door/route.ts'
import type { Principal } from '../../src/identity/principal.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { addressesOf } from '../../src/lib/hosts.ts'
import { originsOf } from '../../src/lib/origins.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'

export const CALLER: Principal = { tenant: 7, scopes: new Set(['sessions:write']), key: 'abc' }

/** What a door needs, on a free port, with one caller who is always let in. */
export function depsOf(routes: readonly Route[], lines: string[] = []) {
  return {
    name: 'gateway',
    host: '127.0.0.1',
    port: 0,
    audiences: ['probe', 'key', 'client'] as const,
    routes,
    limits: {
      bodyLimitBytes: 1_024,
      headerTimeoutMs: 30_000,
      requestTimeoutMs: 30_000,
      requestsPerSocket: 1_000,
      stallMs: 30_000,
      stopMs: 30_000,
      maxSockets: 100,
    },
    clock: systemClock(),
    random: systemRandom(),
    log: createLog({ level: 'debug', destination: { write: (line) => void lines.push(line) } }),
    metrics: createMetrics(),
    callers: { callerOf: async () => CALLER, recheck: async () => undefined },
    corsOrigins: originsOf('')!,
    trustedProxies: addressesOf('')!,
    rateLimits: { countRequest: () => undefined },
    onRefused: () => undefined,
    isDraining: () => false,
  }
}
