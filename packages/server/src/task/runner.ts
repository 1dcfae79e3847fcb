// Who runs the claims of a track, and what surrounds an attempt: from its claim until its end is written. How hard whatever
// is called from there may be pushed is known further up.
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Claim } from './claim.ts'
import type { DoneTransition, Settled, Settlement, Settling } from './settle.ts'

export type Runner = {
  readonly machine: string
  /** What every attempt calls: no more are claimed than there is room for there. */
  readonly downstream?: string | undefined
  /** How to settle the attempt; or, from a runner that has written its end by itself, what came of that. Never rejects. */
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
  /** Its lines name the task already. */
  readonly log: Log
  readonly metrics: Pick<Metrics, 'count' | 'observe'>
  /** To end the attempt from outside. */
  readonly ending: AbortController
  /** As which it was claimed. */
  readonly pod: number
  /** Whether the pod must not trust that it is alive: it starts nothing then. */
  readonly isFenced: () => boolean
  /** Aborted when the pod takes nothing more: what can be handed back is. */
  readonly draining: AbortSignal
  /** Aborted when the pod waits no longer for answers about attempts. */
  readonly gaveUp: AbortSignal
  /** Writes a transition that is done, until there is an answer. Undefined if it stands and the attempt may go on. */
  readonly record: (entry: DoneTransition) => Promise<SettledEnd | undefined>
  readonly permits: Permits
}

/** Of downstreams, by their keys. */
export type Permits = {
  /**
   * Calls the body once there is a permit. Rejects with a `Retry`, code `rate_limited`, if there was none in time or the
   * provider refused: `at` says when to come again. Else with what the body threw.
   */
  readonly run: <Value>(
    key: string,
    body: (call: Call) => Promise<Value>,
    limits: PermitLimits,
  ) => Promise<Value>
  /** How many more attempts may begin, beside so many that have, and have not asked for a permit yet. */
  readonly roomFor: (key: string, coming: number) => number
  /** Whether the queue had as many as there was room for. */
  readonly claimed: (key: string, hasMore: boolean) => void
}
type PermitLimits = {
  /** Somebody waits for the answer: it is not held back before there was a sign of a limit. */
  readonly isAwaited?: boolean
  /** For a permit. */
  readonly maxWaitMs: number
  /** Ends the wait, and not the call. */
  readonly waitSignal: AbortSignal
  /** Ends either. What a call comes to then says nothing about the downstream. */
  readonly signal: AbortSignal
  /** Of the call, whose permit is back then, whatever became of it. */
  readonly deadlineMs: number
}
export type Call = {
  /** Of the caller, and of the deadline: pass it on to whatever is called. */
  readonly signal: AbortSignal
  /** The first part of the answer is there. */
  readonly firstToken: () => void
  /** What the provider answered, for a caller who does not throw its refusals. */
  readonly response: (status: number, headers?: unknown, body?: unknown) => void
}

/** For what was aborted to end. */
export const GRACE_MS = 2_000
