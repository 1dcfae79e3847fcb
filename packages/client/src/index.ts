// The public entry of @fleetline/client.
export { createClient, type Client, type ClientOptions } from './client.ts'
export type { Clock, Random } from './clock.ts'
export type { Kept } from './kept.ts'
export { FleetlineError, type Refusal } from './failure.ts'
export type { Inbox, InboxOptions } from './inbox.ts'
export type { InboxSnapshot } from './inbox-snapshot.ts'
export {
  OUTBOX_LIMIT,
  type Input,
  type Sent,
  type Session,
  type SessionChange,
  type SessionOptions,
} from './session.ts'
export type { Snapshot } from './store.ts'
export type { Connection } from './standing.ts'
export type { TokenSource } from './tokens.ts'
export type { Message, Status } from './view.ts'
