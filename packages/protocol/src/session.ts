// A session as the wire shows it.
import type { Id } from './ids.ts'

export type Session = {
  readonly session: Id<'session'>
  readonly title: string | null
  /** The last seq; 0 while nothing was said. */
  readonly head: number
  /** Who answers in it; null: it is a plain log. */
  readonly agent: string | null
  readonly state: SessionState
  /** Grows by one with each turn. */
  readonly epoch: number
  /** The live one. */
  readonly turn: Id<'turn'> | null
  /** RFC 3339, UTC. */
  readonly createdAt: string
  readonly updatedAt: string
}

/** `working`: a turn is queued or running. */
export const SESSION_STATES = ['idle', 'working'] as const
export type SessionState = (typeof SESSION_STATES)[number]

export const SESSION_LIMITS = {
  titleLength: 200,
  members: 1_000,
  userIdLength: 128,
} as const
