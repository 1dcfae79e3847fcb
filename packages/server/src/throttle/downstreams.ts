// The downstreams of a pod, each by its key: one limit of a provider is one key, whoever calls under it. Options are said
// once; another `get` of the key may repeat them, or say nothing.
import { isDeepStrictEqual } from 'node:util'
import { Rejected } from '../errors.ts'
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
export type Downstreams = { get(key: string, options?: DownstreamOptions): Downstream }
type Deps = { readonly clock: Clock; readonly random: Random }
type Entry = {
  readonly options: DownstreamOptions | undefined
  readonly limiter: Limiter
  readonly maxWaitMs: number
}

const KEY = /^[a-z0-9][a-z0-9._-]*(\/[a-z0-9][a-z0-9._-]*){0,3}$/
const KEY_BYTES = 128
const MOST_KEYS = 10_000
const START = 4
const MOST_PER_POD = 10_000

export function createDownstreams({ clock, random }: Deps): Downstreams {
  const entries = new Map<string, Entry>()
  const open = (key: string, options: DownstreamOptions | undefined): Entry => {
    if (entries.size >= MOST_KEYS) throw new Rejected('invalid', `There are ${MOST_KEYS} downstreams already`)
    const { most, maxWaitMs, deadlineMs } = checked(key, options)
    const limiter = createLimiter({ key, clock, random, deadlineMs, rules: { start: START, most } })
    const entry = { options, limiter, maxWaitMs }
    entries.set(key, entry)
    return entry
  }
  return {
    get: (key, options) => {
      const entry = entries.get(key) ?? open(key, options)
      if (options && !isDeepStrictEqual(options, entry.options))
        throw new Rejected('conflict', `${key} has other options already: say them once`)
      const { limiter, maxWaitMs } = entry
      return {
        key,
        standing: limiter.standing,
        run: (body, { signal, maxWait } = {}) => {
          const ms = maxWait === undefined ? maxWaitMs : durationMs('maxWait', maxWait)
          return limiter.run(body, { signal, maxWaitMs: ms })
        },
      }
    },
  }
}

function checked(key: string, options: DownstreamOptions = {}) {
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
