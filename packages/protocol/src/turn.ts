// A turn as it is sent over the API: one reply of an agent, from the message that asked for it to its end.
import type { Id } from './ids.ts'
import type { SeqRange } from './message.ts'

/** `queued`: it waits for a pod, or for its next attempt. `stopped`: somebody stopped it. */
export const TURN_STATES = ['queued', 'running', 'done', 'failed', 'stopped'] as const
export type TurnState = (typeof TURN_STATES)[number]

export type Turn = {
  readonly id: Id<'turn'>
  readonly session: Id<'session'>
  readonly state: TurnState
  readonly epoch: number
  /** How often a pod has claimed it. */
  readonly attempt: number
  readonly agent: string
  /** The id that its reply has once it is in the log. */
  readonly message: Id<'message'>
  /** The seqs that it answers; `to` is null until the turn has read them. A stopped turn covers all that was asked by then. */
  readonly answers: { readonly from: number; readonly to: number | null }
  /** For a reply that is written anew: the messages in whose place it will stand, once it has said something. */
  readonly replaces?: readonly SeqRange[]
  /** The pod that runs it now. */
  readonly pod: string | null
  readonly startedAt: string
  /** The next attempt does not start earlier. */
  readonly retryAt: string | null
  /** Why it waits: `agent_unknown` if no live pod has its agent; `rate_limited` if the agent, or the downstream that it shares, is
   *  at its limit; otherwise the error code of the last attempt. */
  readonly waitsFor: string | null
  readonly endedAt: string | null
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null
  /** For a stopped turn: whether the agent's call of the attempt that was current has ended, too. */
  readonly halted?: boolean
  /** What its attempts have used so far: one entry for each attempt and model. Only where a turn is shown alone, and not for users. */
  readonly usage?: readonly AttemptTokens[]
}

/** Tokens as the agent reports them; null where it does not. `inputTokens` contains `cacheReadTokens` and `cacheWriteTokens`,
 *  `outputTokens` contains `reasoningTokens`. */
export type AttemptTokens = {
  readonly attempt: number
  /** Empty if the agent does not name it, or reports nothing. */
  readonly model: string
  /** How the attempt ended; `returned` if its pod gave it back, `lost` if its pod died. */
  readonly outcome: 'done' | 'failed' | 'returned' | 'stopped' | 'fenced' | 'lost'
  readonly inputTokens: number | null
  readonly outputTokens: number | null
  readonly cacheReadTokens: number | null
  readonly cacheWriteTokens: number | null
  readonly reasoningTokens: number | null
}

/** The answer to a stop, given after the commit: from then on the turn writes nothing. */
export type StopAck = {
  /** False if another turn is live, or none; then nothing was changed. */
  readonly stopped: boolean
  /** The seq of what the agent had said by then; null if it had said nothing. */
  readonly seq: number | null
}
