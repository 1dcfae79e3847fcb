// Who runs the claims of a track, and what surrounds an attempt: from its claim until its end is written.
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Claim } from './claim.ts'
import type { Entry, Settled, Settlement, Settling } from './settle.ts'

export type Runner = {
  readonly machine: string
  /** How to settle the attempt; or, from a runner that has written its end by itself, what came of that. Never rejects. */
  readonly run: (claim: Claim, around: Surroundings) => Promise<Settlement | Ended>
}
export type Ended = { readonly type: Settling['settlement']['type']; readonly answer: Settled | 'unanswered' }

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
  readonly record: (entry: Entry) => Promise<Ended | undefined>
}

/** For what was aborted to end. */
export const GRACE_MS = 2_000
