// The downstreams of a pod, each by its key: one limit of a provider is one key, whoever calls under it. Options are said
// once; another `get` of the key may repeat them, or say nothing.
import { isDeepStrictEqual } from 'node:util'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { durationMs } from '../lib/duration.ts'
import type { Random } from '../lib/random.ts'
import type { Call, Permits } from '../task/runner.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { send } from './call.ts'
import { createInUse, type InUse } from './in-use.ts'
import { keyOf } from './key.ts'
import type { Patience, Standing } from './limiter.ts'
import { modeOf, MODES, type Mode } from './mode.ts'

export type DownstreamOptions = {
  /** In flight at once from one pod, at the very most. */
  readonly maxPerPod?: number
  /** For a permit. */
  readonly maxWait?: string
  /** Of one call: then its permit is back, whatever became of it. A step of a machine has its timeout instead. */
  readonly deadline?: string
  /** `observe` learns and counts, and lets every call pass at once; `off` does nothing at all. */
  readonly mode?: Mode
}
export type RunOptions = {
  readonly signal?: AbortSignal
  /** For a permit; longer belongs in the queue. */
  readonly maxWait?: string
}
export type Downstream = {
  readonly key: string
  /**
   * Calls it once there is a permit. Throws `Retry`, code `rate_limited`, if nothing was sent, with `at` for when to
   * ask again; else what the body threw. It never tries again, so that an SDK's own retries should be off.
   */
  run<Value>(body: (call: Call) => Promise<Value>, options?: RunOptions): Promise<Value>
  standing(): Standing
}
export type Downstreams = {
  get(key: string, options?: DownstreamOptions): Downstream
  /** Whether code has named it: with its options, or as that of a machine or an agent. */
  readonly isNamed: (key: string) => boolean
  readonly inUse: InUse['all']
  /** For what stands in the queue. */
  readonly permits: Permits
}
type Deps = {
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Metrics
  /** By machines and agents. */
  readonly named: readonly string[]
  /** Of the whole pod. */
  readonly throttle: Mode
  /** There is something to tell the fleet, better soon. */
  readonly onNews: () => void
}
type Settings = {
  readonly most: number
  readonly maxWaitMs: number
  readonly deadlineMs: number
  readonly mode: Mode
}
type Said = { readonly settings: Settings; readonly options: DownstreamOptions }

const MOST_SAID = 10_000
const MOST_PER_POD = 10_000
const UNUSED: Standing = { limit: 1, share: 1, gen: 0, held: 0, waiting: 0, pausedUntil: undefined }

export function createDownstreams(deps: Deps): Downstreams {
  const said = new Map<string, Said>()
  const named = new Set(deps.named)
  const inUse = createInUse(deps)
  const say = (key: string, options: DownstreamOptions) => {
    const known = said.get(key)
    if (known && !isDeepStrictEqual(options, known.options))
      throw new Rejected('conflict', `${key} has other options already: say them once`)
    if (said.size >= MOST_SAID) throw new Rejected('invalid', `${MOST_SAID} downstreams have options already`)
    said.set(key, known ?? { settings: settingsOf(key, options), options })
  }
  const settingsFor = (key: string): Settings => {
    const settings = said.get(key)?.settings ?? DEFAULTS
    return { ...settings, mode: modeOf(deps.throttle, settings.mode) }
  }
  const run = async <Value>(key: string, body: (call: Call) => Promise<Value>, patience: Patience) => {
    const { most, mode } = settingsFor(key)
    if (mode === 'off') return unlimited(deps.clock, body, patience)
    return inUse.of(key, { most, mode }).run(body, patience)
  }
  return {
    isNamed: (key) => named.has(key) || said.has(key),
    inUse: inUse.all,
    get: (key, options) => {
      keyOf(key)
      if (options) say(key, options)
      const { maxWaitMs, deadlineMs } = settingsFor(key)
      return {
        key,
        standing: () => inUse.find(key)?.standing() ?? UNUSED,
        run: async (body, { signal, maxWait } = {}) => {
          const waitMs = maxWait === undefined ? maxWaitMs : durationMs('maxWait', maxWait)
          return run(key, body, { signal, maxWaitMs: waitMs, deadlineMs })
        },
      }
    },
    permits: {
      run: (key, body, limits) => run(key, body, { ...limits, isQueued: true }),
      roomFor: (key, begun) => {
        if (settingsFor(key).mode !== 'enforce') return Number.POSITIVE_INFINITY
        return inUse.find(key)?.roomFor(begun) ?? Math.max(0, UNUSED.limit - begun)
      },
      claimed: (key, hasMore) => inUse.find(key)?.claimed(hasMore),
    },
  }
}

async function unlimited<Value>(
  clock: Clock,
  body: (call: Call) => Promise<Value>,
  { signal, deadlineMs }: Patience,
): Promise<Value> {
  return send({ body, clock, deadlineMs, signal, end: () => undefined, asRefused: (error) => error })
}

function settingsOf(key: string, options: DownstreamOptions): Settings {
  const { maxPerPod: most = 200, maxWait = '30s', deadline = '15m', mode = 'enforce' } = options
  if (!Number.isInteger(most) || most < 1 || most > MOST_PER_POD)
    throw new Rejected('invalid', `${key}: maxPerPod must be from 1 to ${MOST_PER_POD}`)
  const [maxWaitMs, deadlineMs] = [
    durationMs(`${key}: maxWait`, maxWait),
    durationMs(`${key}: deadline`, deadline),
  ]
  if (deadlineMs === 0) throw new Rejected('invalid', `${key}: deadline must be more than nothing`)
  if (!MODES.includes(mode)) throw new Rejected('invalid', `${key}: mode must be one of ${MODES.join(', ')}`)
  return { most, maxWaitMs, deadlineMs, mode }
}

const DEFAULTS = settingsOf('any', {})
