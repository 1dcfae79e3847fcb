// A session as the wire shows it.
import type { Id } from './ids.ts'

export type Session = {
  readonly session: Id<'session'>
  /** Stands wherever its id may. */
  readonly alias: string | null
  readonly title: string | null
  /** The last seq; 0 while nothing was said. */
  readonly head: number
  /** Who answers in it; null: it is a plain log. */
  readonly agent: string | null
  readonly state: SessionState
  /** Grows by one with each turn that starts, and with each that is stopped. */
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

/** 1 to 128 characters that stand in a path as they are; nothing that could be an id. */
export const SESSION_ALIAS: RegExp = /^(?!ses_)[A-Za-z0-9_-][A-Za-z0-9._:@-]{0,127}$/

export const SESSION_LIMITS = {
  titleLength: 200,
  members: 1_000,
  userIdLength: 128,
} as const
