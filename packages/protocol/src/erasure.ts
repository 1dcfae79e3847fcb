// The receipt of an erasure, as it is sent over the API.
import type { Id } from './ids.ts'

export type Erasure = {
  readonly erasure: Id<'erasure'>
  readonly kind: ErasureKind
  /** Of an erased message or session. */
  readonly session: Id<'session'> | null
  /** Of an erased message. */
  readonly seq: number | null
  /** `running`: nobody reads an erased session or message any more, but the database still has some of what it said; of a user, messages
   *  are still being looked for. */
  readonly state: ErasureState
  /** RFC 3339, UTC. */
  readonly requestedAt: string
  readonly doneAt: string | null
  readonly erased: ErasedCounts
  readonly remains: readonly Remains[]
}

/** `user`: sessions of which the user is the only member are erased; in others its messages and its membership are. */
export const ERASURE_KINDS = ['message', 'session', 'user'] as const
export type ErasureKind = (typeof ERASURE_KINDS)[number]
export const ERASURE_STATES = ['running', 'done'] as const
export type ErasureState = (typeof ERASURE_STATES)[number]

/** `messages`: those of erased sessions are not counted. */
export type ErasedCounts = {
  readonly sessions: number
  readonly messages: number
  readonly memberships: number
}

/** What an erasure leaves. */
export type Remains = {
  readonly what: string
  readonly where: string
  /** RFC 3339, UTC. Null: Fleetline does not know, or does not delete it. */
  readonly until: string | null
}
