// A turn as the wire shows it: one answer of an agent, from the message that asked for it to its end.
import type { Id } from './ids.ts'

/** `queued`: it waits for a pod, or for its next attempt. */
export const TURN_STATES = ['queued', 'running', 'done', 'failed'] as const
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
  /** The seqs that it answers; `to` is null until it has read them. */
  readonly answers: { readonly from: number; readonly to: number | null }
  /** The pod that runs it now. */
  readonly pod: string | null
  readonly startedAt: string
  /** Not before this it is tried again. */
  readonly retryAt: string | null
  readonly endedAt: string | null
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null
}
