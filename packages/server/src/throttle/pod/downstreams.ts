// The downstreams of a pod, by key. One limit of a provider is one key, whoever calls under it. Set the options of a key
// once; a later `get` of the key may repeat the same options or pass none.
import { isDeepStrictEqual } from 'node:util'
import { Rejected } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Random } from '../../lib/random.ts'
import type { Call, Permits } from '../../task/runner.ts'
import type { Metrics } from '../../telemetry/metrics.ts'
import { send } from './limiter.ts'
import {
  settingsOf,
  timeOf,
  type DownstreamDefinition,
  type DownstreamOptions,
  type DownstreamSettings,
} from '../definition.ts'
import { createLimiters, type Limiters } from './limiters.ts'
import { isOfAgent, keyOf } from '../definition.ts'
import type { PermitWish, Standing } from './limiter.ts'
import { modeOf, type Mode } from '../definition.ts'

export type RunOptions = {
  readonly signal?: AbortSignal
  /** How long to wait for a permit. Work that can wait longer belongs in the queue. */
  readonly maxWait?: string
}
export type Downstream = {
  readonly key: string
  /**
   * Runs the body as soon as there is a permit. Throws what the body threw. If nothing was sent, it throws a `Retry`: code
   * `rate_limited` with `at` (when to ask again), or code `unavailable` once the pod has stopped. It never retries, and you
   * should turn off an SDK's own retries.
   */
  run<Value>(body: (call: Call) => Promise<Value>, options?: RunOptions): Promise<Value>
  standing(): Standing
}
export type Downstreams = {
  get(key: string, options?: DownstreamOptions): Downstream
  /** Whether agents behind URLs may share the key. */
  readonly isOpen: (key: string) => boolean
  readonly inUse: Limiters['all']
  /** Permits for work from the queue. */
  readonly permits: Permits
}
type Deps = {
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Metrics
  readonly defined: readonly DownstreamDefinition[]
  /** The mode of the whole pod. */
  readonly throttle: Mode
  /** How many turns run at once. An agent that shares its limit with no other may get that many concurrent calls. */
  readonly turnSlots: number
  /** Called when there is news to report to the leader soon. */
  readonly onNews: () => void
}
type Said = { readonly settings: DownstreamSettings; readonly options: DownstreamOptions }

const MOST_SAID = 10_000
const DEFAULTS = settingsOf('any', {})
const UNUSED: Standing = { limit: 1, share: 1, gen: 0, held: 0, waiting: 0, pausedUntil: undefined }

export function createDownstreams(deps: Deps): Downstreams {
  const said = new Map<string, Said>()
  const ofAgents = { ...DEFAULTS, start: deps.turnSlots, most: deps.turnSlots }
  const inUse = createLimiters(deps)
  const say = (key: string, options: DownstreamOptions) => {
    const known = said.get(key)
    if (known && !isDeepStrictEqual(options, known.options))
      throw new Rejected('conflict', `${key} has other options already: say them once`)
    if (!known && inUse.find(key))
      throw new Rejected('conflict', `${key} is in use: say its options before the pod starts`)
    if (said.size >= MOST_SAID) throw new Rejected('invalid', `${MOST_SAID} downstreams have options already`)
    said.set(key, known ?? { settings: settingsOf(key, options), options })
  }
  for (const { key, options } of deps.defined) say(key, options)
  const settingsFor = (key: string): DownstreamSettings => {
    const settings = isOfAgent(key) ? ofAgents : (said.get(key)?.settings ?? DEFAULTS)
    return { ...settings, mode: modeOf(deps.throttle, settings.mode) }
  }
  const run = async <Value>(key: string, body: (call: Call) => Promise<Value>, patience: PermitWish) => {
    const { start, most, mode } = settingsFor(key)
    if (mode === 'off') return runUnlimited(deps.clock, body, patience)
    return inUse.of(key, { start, most, mode }).run(body, patience)
  }
  return {
    isOpen: (key) => said.get(key)?.settings.isOpen === true,
    inUse: inUse.all,
    get: (key, options) => {
      keyOf(key)
      if (options) say(key, options)
      return {
        key,
        standing: () => inUse.find(key)?.standing() ?? UNUSED,
        run: async (body, { signal, maxWait } = {}) => {
          const { maxWaitMs, deadlineMs } = settingsFor(key)
          const waitMs = maxWait === undefined ? maxWaitMs : timeOf('maxWait', maxWait)
          return run(key, body, { signal, maxWaitMs: waitMs, deadlineMs })
        },
      }
    },
    permits: {
      run: (key, body, limits) => run(key, body, { ...limits, isQueued: true }),
      roomFor: (key, coming) => {
        if (settingsFor(key).mode !== 'enforce') return Number.POSITIVE_INFINITY
        return inUse.find(key)?.roomFor(coming) ?? Math.max(0, settingsFor(key).start - coming)
      },
      claimed: (key, hasMore) => inUse.find(key)?.claimed(hasMore),
    },
  }
}

async function runUnlimited<Value>(
  clock: Clock,
  body: (call: Call) => Promise<Value>,
  { signal, deadlineMs }: PermitWish,
): Promise<Value> {
  return send({ body, clock, deadlineMs, signal, end: () => undefined, asRefused: (error) => error })
}
