// The lines of an export: first the session, then its messages in order, last the end. An export without its last line was cut off.
import type { ErrorCode } from './codes.ts'
import type { Id } from './ids.ts'
import type { Item } from './message.ts'
import type { Session } from './session.ts'

export type ExportLine = ExportedSession | ExportedSummary | ExportedMessage | ExportEnd | ExportCut

export type ExportedSession = {
  readonly type: 'session'
  /** The number of the format of the messages. */
  readonly format: number
  /** RFC 3339, UTC. */
  readonly exportedAt: string
  /** As it was when the export began. The export has the messages up to this head. */
  readonly session: Session
  readonly members: readonly string[]
}

/** What the agent is sent in place of the first messages. Users do not get it. */
export type ExportedSummary = {
  readonly type: 'summary'
  /** It covers the messages up to this seq. */
  readonly through: number
  readonly text: string
}

export type ExportedMessage = { readonly type: 'message' } & Item

export type ExportEnd = {
  readonly type: 'end'
  readonly session: Id<'session'>
  /** How many messages came before. */
  readonly messages: number
}

/** The last line, instead of `end`, if the session was erased or the caller lost access during the export. */
export type ExportCut = {
  readonly type: 'cut-off'
  readonly code: ErrorCode
  readonly text: string
}
