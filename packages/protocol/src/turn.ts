// A turn as the wire shows it: one answer of an agent, from the message that asked for it to its end.
import type { Id } from './ids.ts'

/** `queued`: it waits for a pod, or for its next attempt. `stopped`: a person ended it. */
export const TURN_STATES = ['queued', 'running', 'done', 'failed', 'stopped'] as const
export type TurnState = (typeof TURN_STATES)[number]

export type Turn = {
  readonly id: Id<'turn'>
  readonly session: Id<'session'>
  readonly state: TurnState
  readonly epoch: number
  /** How often a pod has taken it. */
  readonly attempt: number
  readonly agent: string
  /** The id that its reply has, once that is in the log. */
  readonly message: Id<'message'>
  /** The seqs that it answers; `to` is null until it has read them. One that was stopped ends all that was asked by then. */
  readonly answers: { readonly from: number; readonly to: number | null }
  /** The pod that runs it now. */
  readonly pod: string | null
  readonly startedAt: string
  /** Not before this it is tried again. */
  readonly retryAt: string | null
  /** Why it waits: `agent_unknown` if no live pod has its agent; `rate_limited` if that, or what it shares, has enough to do; else
   *  the code of the fault of the attempt before. */
  readonly waitsFor: string | null
  readonly endedAt: string | null
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null
  /** Of one that was stopped: whether the call of its agent has ended, too, that of the attempt which was current. */
  readonly halted?: boolean
}

/** What a stop is answered with, once it is committed: the turn writes no more. */
export type StopAck = {
  /** False: another turn is live, or none; nothing was changed. */
  readonly stopped: boolean
  /** Of what it had said by then; null if that was nothing. */
  readonly seq: number | null
}
