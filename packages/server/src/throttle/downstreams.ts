// The downstreams of a pod, each by its key: one limit of a provider is one key, whoever calls under it. Options are said
// once; another `get` of the key may repeat them, or say nothing. What was learnt is forgotten with the last use.
import { isDeepStrictEqual } from 'node:util'
import { Rejected, Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { durationMs } from '../lib/duration.ts'
import type { Random } from '../lib/random.ts'
import { createLimiter, type Call, type Limiter, type RunOptions, type Standing } from './limiter.ts'

export type DownstreamOptions = {
  /** In flight at once from one pod, at the very most. */
  readonly maxPerPod?: number
  /** For a permit. */
  readonly maxWait?: string
  /** Of one call: then its permit is back, whatever became of it. */
  readonly deadline?: string
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
  /** Those in use. Who was not used for ten minutes is none of them, and begins anew. */
  readonly inUse: () => ReadonlyMap<string, Limiter>
}
type Deps = {
  readonly clock: Clock
  readonly random: Random
  /** There is something to tell the fleet, better soon. */
  readonly onNews: () => void
}
type Settings = { readonly most: number; readonly maxWaitMs: number; readonly deadlineMs: number }
type Said = Settings & { readonly options: DownstreamOptions }

const KEY = /^[a-z0-9][a-z0-9._-]*(\/[a-z0-9][a-z0-9._-]*){0,3}$/
const KEY_BYTES = 128
const MOST_SAID = 10_000
const MOST_IN_USE = 1_000
const IDLE_MS = 600_000
const START = 4
const UNUSED: Standing = { limit: 1, share: 1, gen: 0, held: 0, waiting: 0, pausedUntil: undefined }
const MOST_PER_POD = 10_000

export function createDownstreams({ clock, random, onNews }: Deps): Downstreams {
  const said = new Map<string, Said>()
  const limiters = new Map<string, Limiter>()
  const say = (key: string, options: DownstreamOptions) => {
    const known = said.get(key)
    if (known && !isDeepStrictEqual(options, known.options))
      throw new Rejected('conflict', `${key} has other options already: say them once`)
    if (said.size >= MOST_SAID) throw new Rejected('invalid', `${MOST_SAID} downstreams have options already`)
    said.set(key, known ?? { ...checked(key, options), options })
  }
  const forgetIdle = (longerMs: number) => {
    for (const [key, limiter] of limiters) if (limiter.idleMs() > longerMs) limiters.delete(key)
  }
  const limiterOf = (key: string, { most, deadlineMs }: Settings): Limiter => {
    const known = limiters.get(key)
    if (known) return known
    if (limiters.size >= MOST_IN_USE) forgetIdle(0)
    if (limiters.size >= MOST_IN_USE)
      throw new Retry('rate_limited', `${MOST_IN_USE} other downstreams are in use by this pod`)
    const limiter = createLimiter({ key, clock, random, deadlineMs, rules: { start: START, most }, onNews })
    limiters.set(key, limiter)
    onNews()
    return limiter
  }
  return {
    inUse: () => {
      forgetIdle(IDLE_MS)
      return limiters
    },
    get: (key, options) => {
      if (options) say(key, options)
      const settings = said.get(key) ?? checked(key)
      return {
        key,
        standing: () => limiters.get(key)?.standing() ?? UNUSED,
        run: async (body, { signal, maxWait } = {}) => {
          const maxWaitMs = maxWait === undefined ? settings.maxWaitMs : durationMs('maxWait', maxWait)
          return limiterOf(key, settings).run(body, { signal, maxWaitMs })
        },
      }
    },
  }
}

function checked(key: string, options: DownstreamOptions = {}): Settings {
  if (!KEY.test(key) || Buffer.byteLength(key) > KEY_BYTES)
    throw new Rejected(
      'invalid',
      'A downstream has a key such as provider/account/model: one to four parts of a-z, 0-9, dot, dash and underscore',
    )
  const { maxPerPod: most = 200, maxWait = '30s', deadline = '15m' } = options
  if (!Number.isInteger(most) || most < 1 || most > MOST_PER_POD)
    throw new Rejected('invalid', `${key}: maxPerPod must be from 1 to ${MOST_PER_POD}`)
  const [maxWaitMs, deadlineMs] = [
    durationMs(`${key}: maxWait`, maxWait),
    durationMs(`${key}: deadline`, deadline),
  ]
  if (deadlineMs === 0) throw new Rejected('invalid', `${key}: deadline must be more than nothing`)
  return { most, maxWaitMs, deadlineMs }
}
