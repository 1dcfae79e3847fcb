// A socket as a value: its path, its commands and who may use each of them, and the frames that it sends. The door refuses to open over a
// command whose access is not declared, or is declared wrongly (S2).
import type { z } from 'zod'
import type { Principal } from '../identity/principal.ts'
import { bodyOf, type Refusal } from './refusal.ts'
import { brokenAccess, type Audience, type KnownAccess } from './route.ts'

/** One connected client, as the commands of its socket see it. */
export type SocketPeer = {
  /** As it was last authenticated: a new token may have other rights. */
  readonly caller: () => Principal
  readonly push: Push
  /** Resolves when the client has taken enough of what was sent before, or the signal is aborted. */
  readonly room: (signal: AbortSignal) => Promise<void>
  /** Closes the socket, because its client reads too slowly. */
  readonly cut: () => void
  /** Aborted when the socket is over. */
  readonly signal: AbortSignal
  /** A pod that drains does not close the socket until the returned function is called. If it drains already, nothing delays it. */
  readonly hold: () => () => void
  /** Closes the socket, so that its client connects again. */
  readonly restart: () => void
}

/** Sends a frame when there is room, and resolves when the client's connection has taken it. Sends nothing once the signal is aborted. */
export type Push = (frame: object, options: PushOptions) => Promise<void>
export type PushOptions = {
  /** Must be aborted when the signal of the socket is: derive it with `AbortSignal.any`. */
  readonly signal: AbortSignal
  /** The position after the frame, for the reason of a close. */
  readonly mark?: string
}

/** What a command does on the side of one socket. */
export type SocketCommand<Side> = {
  readonly summary: string
  readonly access: KnownAccess
  readonly frame: z.ZodType
  readonly handle: (side: Side, frame: never, principal: Principal) => Promise<SocketAnswer>
}
type Typed<Side, Frame> = Omit<SocketCommand<Side>, 'frame' | 'handle'> & {
  readonly frame: z.ZodType<Frame>
  readonly handle: (side: Side, frame: Frame, principal: Principal) => Promise<SocketAnswer>
}

/** An answer without its `cid`. `onAnswered` is called once the answer is on its way, so that further frames come after it. It is called
 *  even if the socket is over by then. */
export type SocketAnswer = { readonly frame: object; readonly onAnswered?: () => void }

/** What one socket has open. */
export type SocketSide = {
  /** Ends feeds that the caller may not see any more. Rejects if this cannot be checked now. */
  readonly recheck: () => Promise<void>
}

export type FrameFields = Readonly<Record<string, unknown>>

/** How the clients of a socket speak. */
export type SocketDialect = {
  /** The field by which a client tells answers apart. */
  readonly cid: string
  /** Commands with the same value in this field run one after the other. */
  readonly order: string
  readonly errorOf: (refusal: Refusal, requestId: string) => object
  /** Absent: the client offers our subprotocol, and sends `hello` with its token. The socket says `welcome`, `tick`, `expiring` and
   *  `reconnect`. Otherwise the client offers what it likes, each frame may carry a token, and the socket says only what commands say. */
  readonly tokenIn?: (frame: FrameFields) => string | undefined
}
export const NATIVE: SocketDialect = {
  cid: 'cid',
  order: 'session',
  errorOf: (refusal, requestId) => ({ type: 'error', ...bodyOf(refusal, requestId).error }),
}

export type SocketRoute<Side extends SocketSide = SocketSide> = {
  readonly path: string
  readonly summary: string
  readonly dialect: SocketDialect
  /** The largest frame of a client that the handshake has authenticated, if it differs from that of others. */
  readonly frameBytes?: number
  readonly commands: Readonly<Record<string, SocketCommand<Side>>>
  /** Every answer and every frame that is pushed, except for errors. Removes fields that are not declared. */
  readonly frames: z.ZodType<object>
  readonly open: (peer: SocketPeer) => Side
}

/** Ties the type of a command's frame to its schema. */
export function socketCommand<Side, Frame>(command: Typed<Side, Frame>): SocketCommand<Side> {
  return command
}

/** Ties the commands of a socket to its side. */
export function socketRoute<Side extends SocketSide>(socket: SocketRoute<Side>): SocketRoute {
  return socket as unknown as SocketRoute // its commands get nothing but what its `open` returns
}

/** Says why a door for these audiences must not open with these sockets: one sentence each. */
export function brokenSockets(sockets: readonly SocketRoute[], audiences: readonly Audience[]): string[] {
  return sockets.flatMap(({ path, commands }) =>
    Object.entries(commands).flatMap(([name, command]) => {
      const broken =
        (command.access as { audience?: string } | undefined)?.audience === 'probe'
          ? 'takes the tenant of a caller whom nobody knows'
          : brokenAccess(command, audiences)
      return broken === undefined ? [] : [`the command ${name} of ${path} ${broken}`]
    }),
  )
}
