// The frames of a socket, `GET /v1/socket`: one JSON object in each text message. A client sends `hello`, then commands. Each command
// has a `cid` that the client chooses; exactly one `ack`, `joined` or `error` answers it, unless the socket ends first. The `cid` only
// connects answer and command. A client may send a command without an answer again, on any socket and to any pod: it takes effect once.
// Both sides ignore fields that they do not know, and clients ignore frames of unknown types.
import type { ErrorCode } from './codes.ts'
import type { Frame } from './frame.ts'
import type { Id } from './ids.ts'
import type { InboxFrame, InboxShow, ReadAck } from './inbox.ts'
import type { Ack, Message } from './message.ts'
import type { Session } from './session.ts'
import type { StopAck } from './turn.ts'

/** The subprotocol that a client offers. */
export const SOCKET_PROTOCOL = 'fleetline.v1'
/** A second subprotocol may carry the token after this prefix, for clients that cannot set headers. */
export const TOKEN_PROTOCOL = 'token.'

export const SOCKET_LIMITS = {
  /** A larger frame from a client closes the socket. */
  frameBytes: 524_288,
  /** Sessions that one socket follows at once. */
  joined: 128,
  cidLength: 64,
  /** Sockets of one user on one pod. */
  perUser: 20,
  /** The time for the first `hello`. */
  helloMs: 5_000,
  /** The time from one `tick` to the next. */
  tickMs: 25_000,
  /** `expiring` comes this long before the token ends. */
  expiringMs: 60_000,
} as const

/** How many messages of a session a client begins with. */
export const JOIN_LIMITS = {
  /** Unless the client names a number. */
  tail: 50,
  most: 100,
  /** A client that is further behind gets the last messages instead of all that it has missed. */
  behind: 500,
} as const

/** Why a pod has refused the client. After `malformed` and `otherUser`, a client must not reconnect by itself. After `unauthenticated` it
 *  needs a new token; after `tooMany` it connects again later. These codes are a constant of their own, so that pages need not load the others. */
export const REFUSED_CODES = {
  malformed: 4400,
  unauthenticated: 4401,
  otherUser: 4403,
  tooMany: 4429,
} as const

/** Why a pod closes a socket. Unless it was refused, the client reconnects and resumes. */
export const CLOSE_CODES = {
  tooLarge: 1009,
  restart: 1012,
  overload: 1013,
  malformed: 4400,
  unauthenticated: 4401,
  otherUser: 4403,
  slow: 4408,
  tooMany: 4429,
} as const

type Named = { readonly cid: string }
type InSession = Named & {
  /** An id or an alias. */
  readonly session: string
}

/** The first frame. Later, a `hello` with a new token of the same user keeps the socket open. */
export type HelloFrame = {
  readonly type: 'hello'
  /** A token, or an API key. Absent if the handshake carried it. */
  readonly token?: string
}
/** Follows a session. A second `join` of it starts again. Without `cursor` and `after`, or if the position is too far behind or of
 *  another history, it begins with the last messages. */
export type JoinFrame = InSession & {
  readonly type: 'join'
  /** Of the last frame of this session that the client has. */
  readonly cursor?: string | null
  /** Or the seq of the last message that the client has; null if it has none. */
  readonly after?: number | null
  /** How many messages to send if the session begins with its last messages. */
  readonly limit?: number
  /** With `after`: the turns from this epoch on are sent, also those that have ended. */
  readonly epoch?: number
}
/** Appends a message. If the client sends it again with the same id, it is stored once. */
export type SendFrame = InSession & {
  readonly type: 'send'
  readonly message: Pick<Message, 'id' | 'parts' | 'metadata'> & { readonly role?: Message['role'] }
  readonly author?: string
  readonly ifHead?: number
  readonly reply?: boolean
}
export type StopFrame = InSession & {
  readonly type: 'stop'
  readonly turn: Id<'turn'>
  readonly epoch: number
}
/** Writes a reply anew, whichever message it answers. If the client sends it again with the same epoch, one turn starts. */
export type RegenerateFrame = InSession & {
  readonly type: 'regenerate'
  /** Of the session, as the client knows it. */
  readonly epoch: number
  /** The id of the reply, or of the user's message whose reply is regenerated. Absent: the live reply; otherwise the last reply, or the last
   *  message that asks for one, whichever is later. */
  readonly message?: string
}
/** Puts another message in the place of a user's message. What came behind it leaves the conversation, and a turn answers. */
export type EditFrame = InSession & {
  readonly type: 'edit'
  readonly epoch: number
  /** The id of the message to replace. */
  readonly message: string
  readonly parts: Message['parts']
  readonly metadata?: Message['metadata']
  /** Of the new message. */
  readonly id?: string
  readonly author?: string
}
export type ReadFrame = InSession & {
  readonly type: 'read'
  readonly seq: number
  /** Only for callers with a key, which must name it. */
  readonly user?: string
}
export type LeaveFrame = InSession & { readonly type: 'leave' }
/** Follows the inbox. A second one starts again; `on: false` ends it. */
export type InboxOnFrame = Named & {
  readonly type: 'inbox'
  readonly on: boolean
  readonly show?: InboxShow
  readonly limit?: number
  readonly user?: string
}
export type PingFrame = { readonly type: 'ping'; readonly n?: number }

export type ClientFrame =
  | HelloFrame
  | JoinFrame
  | SendFrame
  | StopFrame
  | RegenerateFrame
  | EditFrame
  | ReadFrame
  | LeaveFrame
  | InboxOnFrame
  | PingFrame

/** The caller is authenticated, for the first time or again. */
export type WelcomeFrame = {
  readonly type: 'welcome'
  /** Null for a caller with a key. */
  readonly user: string | null
  readonly now: string
  /** Null for a key. */
  readonly tokenExpiresAt: string | null
  readonly tickMs: number
  readonly limits: { readonly frameBytes: number; readonly joined: number }
}
/** Answers a `join`. The frames of the session follow. */
export type JoinedFrame = Named & {
  readonly type: 'joined'
  readonly session: Id<'session'>
  readonly facts: Session
  /** The first message that follows is the one after this seq. A client with another last seq must discard its data of the session. */
  readonly from: number
}
/** A frame of a session that the socket follows. `cursor` is the position after this frame. */
export type FollowedFrame = Frame & { readonly cursor: string }
/** The session, or the inbox (`session` is null), is not followed any more. */
export type LeftFrame = {
  readonly type: 'left'
  readonly session: Id<'session'> | null
  readonly code: ErrorCode
  readonly text: string
}
/** Answers a command. Except for `leave` and `inbox`, it is sent after the commit. */
export type AckFrame = Named & { readonly type: 'ack' } & Partial<Ack> & Partial<StopAck> & Partial<ReadAck>
/** For `stale`: what the caller expected to be otherwise. */
type Current = { readonly head?: number; readonly epoch?: number; readonly turn?: Id<'turn'> | null }
export type ErrorFrame = {
  readonly type: 'error'
  /** Absent if the frame had none that can be read. */
  readonly cid?: string
  readonly code: ErrorCode
  readonly text: string
  readonly retryable: boolean
  readonly retryAfterMs?: number
  readonly current?: Current
  readonly requestId: string
}
export type ExpiringFrame = { readonly type: 'expiring'; readonly at: string }
/** The pod stops or drains: open another socket after this time, join everything there, then close this one. */
export type ReconnectFrame = { readonly type: 'reconnect'; readonly afterMs: number }
/** Pages cannot see the pings of the protocol. A socket without any frame for 40 s is dead. */
export type TickFrame = { readonly type: 'tick'; readonly now: string }
export type PongFrame = { readonly type: 'pong'; readonly n?: number }

export type ServerFrame =
  | WelcomeFrame
  | JoinedFrame
  | FollowedFrame
  | InboxFrame
  | LeftFrame
  | AckFrame
  | ErrorFrame
  | ExpiringFrame
  | ReconnectFrame
  | TickFrame
  | PongFrame
