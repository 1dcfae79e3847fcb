// A session as it is sent over the API.
import type { Id } from './ids.ts'
import type { Metadata } from './message.ts'

export type Session = {
  readonly session: Id<'session'>
  /** May be used wherever the id may be used. */
  readonly alias: string | null
  readonly title: string | null
  /** Belongs to the application. */
  readonly metadata: Metadata | null
  /** Archived sessions have their own part of the inbox. A message that is sent un-archives its session. */
  readonly archived: boolean
  /** The last seq; 0 in an empty session. */
  readonly head: number
  /** The agent that answers; null for a plain log. */
  readonly agent: string | null
  readonly state: SessionState
  /** Grows by one with each turn that starts and each turn that is stopped. */
  readonly epoch: number
  /** The live turn. */
  readonly turn: Id<'turn'> | null
  /** RFC 3339, UTC. */
  readonly createdAt: string
  readonly updatedAt: string
}

/** `working`: a turn is queued or running. `compacting`: the conversation is being summarised; messages that come meanwhile are answered
 *  afterwards. */
export const SESSION_STATES = ['idle', 'working', 'compacting'] as const
export type SessionState = (typeof SESSION_STATES)[number]

/** 1 to 128 characters that need no escaping in a path. Must not look like an id. */
export const SESSION_ALIAS: RegExp = /^(?!ses_)[A-Za-z0-9_-][A-Za-z0-9._:@-]{0,127}$/

export const SESSION_LIMITS = {
  titleLength: 200,
  members: 1_000,
  userIdLength: 128,
  /** As JSON in UTF-8. */
  metadataBytes: 4_096,
} as const
