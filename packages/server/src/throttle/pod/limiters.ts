// The limiters of the downstreams that a pod calls. A limiter is forgotten ten minutes after its last call; the next call
// starts with a new one. A pod keeps at most a thousand. One more replaces the first of these that exists:
//   1. the limiter that was idle for longest
//   2. among paused agents of the tenant that has most of them: the agent whose pause ends first. So the agents of one
//      tenant do not shut out others.
// Otherwise nothing is evicted and the call is rejected: the pod never forgets a pause of a key that code names.
import { Retry } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Random } from '../../lib/random.ts'
import type { Metrics } from '../../telemetry/metrics.ts'
import { isOfAgent, tenantOf } from '../definition.ts'
import type { Meter } from './gate.ts'
import { createLimiter, type Limiter, type Standing } from './limiter.ts'
import type { Mode } from '../definition.ts'

export type Limiters = {
  readonly find: (key: string) => Limiter | undefined
  /** Finds or creates the limiter of a key. */
  readonly of: (key: string, settings: PodSettings) => Limiter
  readonly all: () => ReadonlyMap<string, Limiter>
}
type PodSettings = { readonly start: number; readonly most: number; readonly mode: Exclude<Mode, 'off'> }
type Deps = {
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Metrics
  readonly onNews: () => void
}

const MOST = 1_000
const IDLE_MS = 600_000

export function createLimiters({ metrics, ...deps }: Deps): Limiters {
  const limiters = new Map<string, Limiter>()
  const labelOf = createLabels()
  const forgetIdle = (longerMs: number) => {
    for (const [key, limiter] of limiters) if (limiter.idleMs() > longerMs) limiters.delete(key)
  }
  const sums = (field: (standing: Standing) => number) => () => {
    const byLabel = Map.groupBy(limiters, ([key]) => labelOf(key))
    return Array.from(byLabel, ([downstream, group]) => {
      const sum = group.reduce((total, [, limiter]) => total + field(limiter.standing()), 0)
      return [{ downstream }, sum] as const
    })
  }
  metrics.gauge(
    'downstreamLimit',
    sums(({ limit }) => limit),
  )
  metrics.gauge(
    'downstreamShare',
    sums(({ share }) => share),
  )
  metrics.gauge(
    'downstreamInFlight',
    sums(({ held }) => held),
  )
  metrics.gauge(
    'downstreamWaiting',
    sums(({ waiting }) => waiting),
  )
  return {
    find: (key) => limiters.get(key),
    of: (key, { start, most, mode }) => {
      const known = limiters.get(key)
      if (known) return known
      if (limiters.size >= MOST) forgetIdlest(limiters)
      if (limiters.size >= MOST) forgetPaused(limiters)
      if (limiters.size >= MOST)
        throw new Retry('rate_limited', `${MOST} other downstreams are in use by this pod`, {
          afterMs: 1_000,
        })
      const meter = meterOf(metrics, labelOf(key))
      const limiter = createLimiter({ ...deps, key, mode, meter, rules: { start, most } })
      limiters.set(key, limiter)
      deps.onNews()
      return limiter
    },
    all: () => {
      forgetIdle(IDLE_MS)
      return limiters
    },
  }
}

function forgetIdlest(limiters: Map<string, Limiter>): void {
  const idle = Array.from(limiters, ([key, limiter]) => ({ key, ms: limiter.idleMs() }))
  const { key, ms } = idle.reduce((most, one) => (one.ms > most.ms ? one : most))
  if (ms > 0) limiters.delete(key)
}

function forgetPaused(limiters: Map<string, Limiter>): void {
  const paused = Array.from(limiters, ([key, limiter]) => ({ key, ...limiter.standing() })).filter(
    ({ key, held, waiting }) => isOfAgent(key) && held + waiting === 0,
  )
  const tenants = [...Map.groupBy(paused, ({ key }) => tenantOf(key)).values()]
  const most = tenants.reduce((a, b) => (b.length > a.length ? b : a), [])
  const untilMs = ({ pausedUntil }: Standing) => pausedUntil?.getTime() ?? 0
  if (most.length > 0) limiters.delete(most.reduce((a, b) => (untilMs(b) < untilMs(a) ? b : a)).key)
}

// A key that code names has a metric label of its own, up to MOST_LABELS of them. The other keys share one label. All agents
// share another, because tenants decide how many agents there are (S22).
type Counters = Pick<Metrics, 'count' | 'observe'>

const MOST_LABELS = 100
const AGENTS = '(agents)' // keys have no brackets, so this is not a key
const OTHERS = '(others)'

/** Returns the label of each key. A key keeps its label. */
export function createLabels(): (key: string) => string {
  const labelled = new Set<string>()
  return (key) => {
    if (isOfAgent(key)) return AGENTS
    if (labelled.size < MOST_LABELS) labelled.add(key)
    return labelled.has(key) ? key : OTHERS
  }
}

export function meterOf(metrics: Counters, downstream: string): Meter {
  return {
    asked: (how, waitedMs) => {
      metrics.count('permits', { downstream, outcome: how })
      if (how === 'at_once' || how === 'waited') metrics.observe('permitWait', { downstream }, waitedMs)
    },
    ended: (kind, cut) => {
      metrics.count('downstreamReplies', { downstream, class: kind })
      if (cut) metrics.count('downstreamCuts', { downstream, reason: cut })
    },
  }
}
