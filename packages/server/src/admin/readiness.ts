// Whether a pod should get requests: named checks, each with its state and the age of what it knows. So a failing probe says
// which part fails and for how long. A check only reads what is already known, so a probe runs no query and cannot hang.
// `failing` takes the pod out of the load balancer and is reserved for faults that make the pod useless. `degraded` is only
// shown. Reasons are fixed phrases, because anyone who can reach the port reads them.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { z } from 'zod'
import type { Fleet } from '../fleet/fleet.ts'
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import { compose, type Service } from '../lib/lifecycle.ts'
import type { Database } from '../store/database.ts'
import type { Hints } from '../store/hints.ts'
import { codeNumber, outsideWindow, readSchema } from '../store/migrate.ts'

const checkSchema = z.object({
  state: z.enum(['ok', 'degraded', 'failing']),
  ageMs: z.int(),
  reason: z.string().optional(),
})
export const reportSchema = z.object({
  state: z.enum(['ok', 'failing']),
  checks: z.record(z.string(), checkSchema),
})
export type ReadinessReport = z.infer<typeof reportSchema>
type Check = z.infer<typeof checkSchema>

export type Readiness = Service & {
  report(): ReadinessReport
  /** Makes the pod not ready: it takes no new work. */
  drain(): void
  undrain(): void
  isDraining(): boolean
}
type Deps = {
  readonly clock: Clock
  readonly database: Pick<Database, 'transaction' | 'fault' | 'longestWaitMs'>
  readonly hints: Pick<Hints, 'status'>
  readonly fleet: Pick<Fleet, 'isFenced' | 'beatAgeMs'>
}

const LOOK_MS = 1_000
const SILENT_MS = 10_000 // longer than a restart of PostgreSQL
const ANSWER_MS = 4_000
const LONG_WAIT_MS = 1_000
const LATE_LOOP_MS = 500

export function createReadiness({ clock, database, hints, fleet }: Deps): Readiness {
  const loop = monitorEventLoopDelay({ resolution: 20 })
  const startMs = clock.monotonicMs()
  const code = codeNumber()
  const known = {
    answeredMs: startMs,
    lookedMs: startMs,
    lateMs: 0,
    schema: { last: code, podsFrom: code },
  }
  let drainingMs: number | undefined
  const look = async () => {
    known.lateMs = loop.percentile(99) / 1e6
    known.lookedMs = clock.monotonicMs()
    loop.reset()
    const outcome = await database.transaction(readSchema, { access: 'read', deadlineMs: ANSWER_MS })
    if (outcome.type !== 'committed') return // the age of the last answer shows it
    known.answeredMs = clock.monotonicMs()
    known.schema = outcome.value
  }
  const since = (ms: number) => Math.round(clock.monotonicMs() - ms)
  const checks = (): Record<string, Check> => ({
    database: check(since(known.answeredMs), {
      failing:
        faultOf(database.fault()) ??
        (since(known.answeredMs) > SILENT_MS && `no answer in the last ${SILENT_MS} ms`),
    }),
    schema: check(since(known.answeredMs), { failing: outsideWindow(known.schema, code) ?? false }),
    beat: check(Math.round(Math.min(fleet.beatAgeMs(), since(startMs))), {
      failing: fleet.isFenced() && 'no beat came through: the others may count this pod as dead',
    }),
    hints: check(Math.round(hints.status().ageMs), {
      degraded:
        (!hints.status().isListening && 'not listening: other pods are heard by the poll alone') ||
        (hints.status().isDeaf && 'own hints do not come back: a pooler by transaction breaks LISTEN'),
    }),
    pool: check(0, {
      degraded: database.longestWaitMs() > LONG_WAIT_MS && 'callers wait for a connection: see poolSize',
    }),
    loop: check(since(known.lookedMs), {
      degraded: known.lateMs > LATE_LOOP_MS && 'the main loop is late: too much work in one place',
    }),
    draining: check(drainingMs === undefined ? 0 : since(drainingMs), {
      failing: drainingMs !== undefined && 'the pod stops, or was drained',
    }),
  })
  const measure: Service = {
    name: 'readiness.loop',
    start: async () => void loop.enable(),
    stop: async () => void loop.disable(),
  }
  const watch = every({ clock, name: 'readiness.watch', everyMs: LOOK_MS, onError: () => undefined }, look)
  return {
    ...compose('readiness', [measure, watch]),
    drain: () => void (drainingMs ??= clock.monotonicMs()),
    undrain: () => void (drainingMs = undefined),
    isDraining: () => drainingMs !== undefined,
    report: () => {
      const results = checks()
      const isFailing = Object.values(results).some(({ state }) => state === 'failing')
      return { state: isFailing ? 'failing' : 'ok', checks: results }
    },
  }
}

function faultOf(fault: ReturnType<Database['fault']>): string | undefined {
  if (fault === 'standby') return 'the address leads to a standby, or to a server that takes no writes'
  if (fault === 'unconfirmed') return 'the server has restarted, and no commit has come through since'
  return undefined
}

type Faults = { readonly failing?: string | false; readonly degraded?: string | false }

function check(ageMs: number, { failing = false, degraded = false }: Faults): Check {
  if (failing !== false) return { state: 'failing', ageMs, reason: failing }
  if (degraded !== false) return { state: 'degraded', ageMs, reason: degraded }
  return { state: 'ok', ageMs }
}
