// A session as the wire shows it.
import type { Id } from './ids.ts'

export type Session = {
  readonly session: Id<'session'>
  readonly title: string | null
  /** The last seq; 0 while nothing was said. */
  readonly head: number
  /** RFC 3339, UTC. */
  readonly createdAt: string
  readonly updatedAt: string
}

export const SESSION_LIMITS = {
  titleLength: 200,
  members: 1_000,
  userIdLength: 128,
} as const
