// Types for running the claims of a track, and for what an attempt can use from its claim until its end is written. The
// limits of downstreams are implemented in `throttle`.
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Claim } from './claim.ts'
import type { DoneTransition, Settled, Settlement, Settling } from './settle.ts'

export type Runner = {
  readonly machine: string
  /** The downstream that every attempt calls. No more tasks are claimed than it has room for. */
  readonly downstream?: string | undefined
  /** Returns how to settle the attempt. A runner that has written the end itself returns the answer to that. Never rejects. */
  readonly run: (claim: Claim, around: Surroundings) => Promise<Settlement | SettledEnd>
}
export type SettledEnd = {
  readonly type: Settling['settlement']['type']
  readonly answer: Settled | 'unanswered'
}

export type Surroundings = {
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
  /** Its lines already name the task. */
  readonly log: Log
  readonly metrics: Pick<Metrics, 'count' | 'observe'>
  /** Ends the attempt from outside. */
  readonly ending: AbortController
  /** The pod under whose id it was claimed. */
  readonly pod: number
  /** Whether the pod must not trust that it is alive. Then it starts nothing. */
  readonly isFenced: () => boolean
  /** Aborted when the pod takes nothing new. The runner then hands back what it can. */
  readonly draining: AbortSignal
  /** Aborted when the pod no longer waits for answers about attempts. */
  readonly gaveUp: AbortSignal
  /** Records a finished transition; retries until PostgreSQL answers. Undefined if it is recorded and the attempt may go on. */
  readonly record: (entry: DoneTransition) => Promise<SettledEnd | undefined>
  readonly permits: Permits
}

/** The permits of all downstreams, by their keys. */
export type Permits = {
  /**
   * Calls the body once there is a permit. Rejects with a `Retry`, code `rate_limited`, if there was no permit in time or the
   * provider rejected the call; `at` says when to try again. Otherwise rejects with what the body threw.
   */
  readonly run: <Value>(
    key: string,
    body: (call: Call) => Promise<Value>,
    limits: PermitLimits,
  ) => Promise<Value>
  /** How many more attempts may begin. `coming`: how many have begun and not yet asked for a permit. */
  readonly roomFor: (key: string, coming: number) => number
  /** Reports a claim. `hasMore`: the queue had as many tasks as there was room for. */
  readonly claimed: (key: string, hasMore: boolean) => void
}
type PermitLimits = {
  /** Somebody waits for the answer. Such a call is not held back before the first sign of a limit. */
  readonly isAwaited?: boolean
  /** The longest wait for a permit. */
  readonly maxWaitMs: number
  /** Ends the wait, but not the call. */
  readonly waitSignal: AbortSignal
  /** Ends the wait and the call. The result of such a call says nothing about the downstream. */
  readonly signal: AbortSignal
  /** Time limit for the call. After it the permit comes back, whatever has happened to the call. */
  readonly deadlineMs: number
}
export type Call = {
  /** Aborted by the caller, or at the deadline. Pass it on to whatever you call. */
  readonly signal: AbortSignal
  /** Reports that the first part of the answer has arrived. */
  readonly firstToken: () => void
  /** Reports what the provider answered. Use it if you do not throw the provider's rejections. */
  readonly response: (status: number, headers?: unknown, body?: unknown) => void
}

/** How long an aborted attempt may take to end. */
export const GRACE_MS = 2_000
