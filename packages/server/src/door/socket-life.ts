// The state of one socket that its parts share, and how it ends: closed with a code by either side, or lost.
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { CLOSE_CODES } from '@fleetline/protocol'
import type { Credentials, PortCallers } from '../identity/callers.ts'
import type { Principal } from '../identity/principal.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { RefusedRequest } from '../identity/refused-requests.ts'
import type { Clock } from '../lib/clock.ts'
import type { Rates } from '../lib/rates.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { refusedRequest } from './audited-refusals.ts'
import { refusalOf, statusOf } from './refusal.ts'
import type { ClientMoves } from './moving.ts'
import type { SocketCommands } from './socket-commands.ts'
import type { FrameFields, SocketRoute, SocketSide } from './socket-route.ts'
import type { SocketWriter } from './socket-writer.ts'

export type SocketDeps = {
  readonly name: string
  readonly callers: PortCallers
  readonly rateLimits: Pick<RateLimits, 'countRequest'>
  /** Counts the frames of each socket, by its number. */
  readonly frameRates: Rates
  readonly onRefused: (refused: RefusedRequest) => void
  readonly stallMs: number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly drawId: () => string
  readonly stopping: AbortSignal
  readonly moving: ClientMoves
  /** How many sockets each user has. */
  readonly users: Map<string, number>
}
export type Handshake = Pick<Credentials, 'address' | 'isLocal'> & {
  readonly route: SocketRoute
  readonly raw: Socket
  /** A name for its frames' rate. */
  readonly id: string
  /** If the handshake has authenticated the caller. */
  readonly principal: Principal | undefined
  /** Why a credential of the handshake was refused: the socket is closed at once. */
  readonly refused?: unknown
}

/** Emitted when either side has begun to close the socket, with the code if the library does it because a frame is too large. */
export const CLOSING = 'closing'

type Reason = keyof typeof CLOSE_CODES

const LINGER_MS = 2_000
const SLOW_LINGER_MS = 10_000 // so that a reader that comes back finds out why
const REASON_BYTES = 123 // of a close frame

export type SocketLife = SocketDeps &
  Handshake &
  SocketEnding & {
    readonly ws: WebSocket
    readonly reading: Reading
    readonly writer: SocketWriter
    /** Sends a frame that only our own clients know. */
    readonly say: (frame: object) => void
    readonly hold: () => () => void
    /** The last credential that a frame has carried, if frames carry them. */
    token: string | undefined
    /** Set once the caller is known. */
    open: Welcomed | undefined
    /** A hello is being checked. Frames that come meanwhile wait in `held`. */
    refreshing: boolean
    held: FrameFields[]
  }
export type Welcomed = {
  principal: Principal
  readonly side: SocketSide
  readonly commands: SocketCommands
  /** Ends the reminder that the token expires. */
  reminding: AbortController
  /** Notes that the caller has access now. */
  readonly admit: () => void
}

export type SocketEnding = {
  readonly close: (reason: Reason, text: string) => void
  /** Its client reads too slowly. */
  readonly cutSlow: () => void
  /** The pod stops, or drains. */
  readonly onStop: () => void
  /** Aborted when either side has begun to close it. */
  readonly signal: AbortSignal
  /** Notes the position after the last frame, for the reason of a close. */
  readonly mark: (at: string) => void
}
type Reading = {
  readonly isPaused: () => boolean
  readonly pause: (reason: 'hello' | 'full' | 'busy', isOn: boolean) => void
}

/** How the socket ends, from either side. */
export function endingOf(
  { clock, metrics, stopping }: SocketDeps,
  ws: WebSocket,
  { raw }: Handshake,
): SocketEnding {
  const [over, gone] = [new AbortController(), new AbortController()]
  let [closedBy, mark]: [number | undefined, string | undefined] = [undefined, undefined]
  /** From now on nothing is done or sent. If the client does not close its side in time, it is disconnected. */
  const end = (lingerMs: number) => {
    if (over.signal.aborted) return
    over.abort()
    ws.resume() // to read the client's close frame
    clock.sleep(lingerMs, gone.signal).then(
      () => ws.terminate(),
      () => undefined, // it is gone
    )
  }
  const close = (reason: Reason, text: string) => {
    if (over.signal.aborted) return
    closedBy = CLOSE_CODES[reason]
    end(reason === 'slow' ? SLOW_LINGER_MS : LINGER_MS)
    ws.close(closedBy, shortened(text))
  }
  const cutSlow = () =>
    close('slow', `The client reads too slowly. ${mark === undefined ? '' : `Last sent: ${mark}`}`)
  const onStop = () =>
    over.signal.aborted ? ws.terminate() : close('restart', 'The pod stops, or drains: connect again')
  stopping.addEventListener('abort', onStop, { once: true })
  ws.on('error', () => undefined) // 'close' follows
  ws.on(CLOSING, (code: number | undefined) => {
    closedBy ??= code
    end(LINGER_MS)
  })
  raw.once('end', () => end(LINGER_MS)) // the client sends nothing more, and the library nothing either
  ws.on('close', () => {
    over.abort()
    gone.abort()
    stopping.removeEventListener('abort', onStop)
    metrics.count('socketsClosed', { code: closedBy === undefined ? 'client' : String(closedBy) })
  })
  if (stopping.aborted) onStop()
  return { close, cutSlow, onStop, signal: over.signal, mark: (at: string) => void (mark = at) }
}

/** A socket is read unless there is a reason not to. */
export function readingOf(ws: WebSocket, over: AbortSignal): Reading {
  const reasons = new Set<string>()
  return {
    isPaused: () => reasons.size > 0,
    pause: (reason, isOn) => {
      if (isOn) reasons.add(reason)
      else reasons.delete(reason)
      if (over.aborted) return // the client's close frame has to be read
      if (reasons.size > 0) ws.pause()
      else ws.resume()
    },
  }
}

const CLOSES: Readonly<Record<string, Reason>> = {
  unauthenticated: 'unauthenticated',
  invalid: 'malformed',
}

export function closeFor(life: SocketLife, error: unknown): void {
  report(life, 'hello', error, life.drawId())
  const { code, text } = refusalOf(error)
  life.close(CLOSES[code] ?? 'overload', text)
}

/** Logs an error that is ours, and notes a refusal for the audit log. */
export function report(life: SocketLife, command: string, error: unknown, requestId: string): void {
  const { route, open, address, onRefused, log, name } = life
  const asked = { caller: open?.principal, address, method: 'GET', route: `${route.path} ${command}` }
  const refused = refusedRequest(error, asked)
  if (refused) onRefused(refused)
  const refusal = refusalOf(error)
  if (statusOf(refusal) >= 500)
    log.error('command failed', { service: name, request_id: requestId, code: refusal.code, error })
}

function shortened(text: string): string {
  let short = text
  while (Buffer.byteLength(short) > REASON_BYTES) short = short.slice(0, -1)
  return short
}
