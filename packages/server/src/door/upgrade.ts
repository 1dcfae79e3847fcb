// Takes HTTP connections over as sockets. Guarantees:
//   S8   a credential comes in the first frame, the header, a subprotocol, or, as a ticket, in the URL; never in a cookie
//   S16  only a page of a listed origin, or of the pod's own host, may open a socket. Frames are bounded and never compressed
// A pod has at most `maxSockets`. A handshake that is refused gets an answer like any other refused request.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { CLOSE_CODES, SOCKET_LIMITS, SOCKET_PROTOCOL, TOKEN_PROTOCOL } from '@fleetline/protocol'
import { Rejected, Retry } from '../errors.ts'
import type { Credentials } from '../identity/callers.ts'
import type { Principal } from '../identity/principal.ts'
import type { Addresses } from '../lib/hosts.ts'
import type { Origins } from '../lib/origins.ts'
import { createRates } from '../lib/rates.ts'
import { SETTINGS } from '../settings.ts'
import { addressOf, isLocal } from './address.ts'
import { refusedRequest } from './audited-refusals.ts'
import { answerRaw } from './raw.ts'
import { refusalOf, statusOf } from './refusal.ts'
import type { SocketRoute } from './socket-route.ts'
import { CLOSING, type SocketDeps } from './socket-life.ts'
import { serveSocket } from './socket.ts'

export type Upgrades = {
  /** Whether the request asks for a socket of this door. Otherwise it is answered as a plain request. So is a handshake with a body, or
   *  behind a request that is not answered yet: bytes of the body, or of that answer, would get between the frames. */
  readonly isWanted: (request: IncomingMessage) => boolean
  /** Call it with every plain request. */
  readonly watch: (request: IncomingMessage, response: ServerResponse) => void
  readonly take: (request: IncomingMessage, raw: Duplex, head: Buffer) => void
}
type Deps = Omit<SocketDeps, 'frameRates' | 'users' | 'stallMs'> & {
  readonly sockets: readonly SocketRoute[]
  readonly corsOrigins: Origins
  readonly trustedProxies: Addresses
  readonly limits: { readonly maxSockets: number; readonly stallMs: number }
}

const FRAMES = { perSecond: 100, burst: 400 }
/** Above this many pings at once, the library drops a client without a code. The limit of frames closes its socket first, with a code. */
const PONGS = { maxPendingAutoPongs: FRAMES.burst + 1 }

/** Emits an event when either side closes it. The library closes it over a frame that is too large, without a reason: it gets one here. */
function boundedTo(bytes: number) {
  return class extends WebSocket {
    override close(code?: number, reason?: string | Buffer): void {
      const isTooLarge = code === CLOSE_CODES.tooLarge && reason === undefined
      super.close(code, isTooLarge ? `A frame may have ${bytes} bytes at most` : reason)
      this.emit(CLOSING, isTooLarge ? code : undefined)
    }
  }
}

export function createUpgrades({ sockets, limits, ...deps }: Deps): Upgrades {
  const { metrics, clock, drawId, stopping } = deps
  const frameRates = createRates({ ...FRAMES, most: 2 * limits.maxSockets, clock })
  const around = { ...deps, frameRates, stallMs: limits.stallMs, users: new Map<string, number>() }
  let [open, made] = [0, 0]
  metrics.gauge('sockets', () => [[{}, open]])
  const servers = new Map(
    [SOCKET_LIMITS.frameBytes, ...sockets.flatMap(({ frameBytes = [] }) => frameBytes)].map((maxPayload) => [
      maxPayload,
      new WebSocketServer({
        noServer: true,
        clientTracking: false,
        perMessageDeflate: false,
        maxPayload,
        ...PONGS,
        handleProtocols: (offered) => offered.has(SOCKET_PROTOCOL) && SOCKET_PROTOCOL,
        WebSocket: boundedTo(maxPayload),
      }),
    ]),
  )
  const refuse = (error: unknown, request: IncomingMessage, raw: Duplex) => {
    const path = pathOf(request)
    const asked = { caller: undefined, address: addressOf(request, deps.trustedProxies), method: 'GET' }
    const refused = refusedRequest(error, { ...asked, route: path })
    if (refused) deps.onRefused(refused)
    const refusal = refusalOf(error)
    const status = statusOf(refusal)
    metrics.count('httpRequests', { door: deps.name, route: path, status: String(status) })
    answerRaw(raw, { status, refusal, requestId: drawId() })
  }
  for (const server of servers.values())
    server.on('wsClientError', (error, raw, request) =>
      refuse(new Rejected('invalid', `This is not a WebSocket handshake: ${error.message}`), request, raw),
    )
  const enter = (raw: Duplex) => {
    if (open >= limits.maxSockets)
      throw new Retry(
        'unavailable',
        'This pod takes no more sockets, because it has reached its limit: connect again',
      )
    open += 1
    raw.once('close', () => (open -= 1))
  }
  const takeOver = async (request: IncomingMessage, raw: Socket, head: Buffer) => {
    const route = sockets.find(({ path }) => path === pathOf(request))!
    requireAllowedOrigin(request, deps.corsOrigins)
    const protocols = protocolsOf(request)
    const isFree = route.dialect.tokenIn !== undefined && protocols.length === 0
    if (!isFree && !protocols.includes(SOCKET_PROTOCOL))
      throw new Rejected('invalid', `Offer the subprotocol ${SOCKET_PROTOCOL}`)
    if (deps.moving.isOn())
      throw new Retry('unavailable', 'This pod takes no new sockets, because it drains: connect again', {
        fields: { isForCaller: true },
      })
    enter(raw)
    const known = await callerOf(deps, request, protocols)
    if (raw.destroyed || raw.writableEnded) return
    const frameBytes = (known.principal && route.frameBytes) ?? SOCKET_LIMITS.frameBytes // strangers send no large frames
    servers.get(frameBytes)!.handleUpgrade(request, raw, head, (ws) => {
      metrics.count('httpRequests', { door: deps.name, route: route.path, status: '101' })
      const address = addressOf(request, deps.trustedProxies)
      const id = String((made += 1))
      serveSocket(around, ws, { route, raw, id, address, isLocal: isLocal(request), ...known })
    })
  }
  const answering = new WeakMap<Duplex, number>()
  return {
    isWanted: (request) =>
      request.method === 'GET' &&
      request.headers.upgrade?.toLowerCase() === 'websocket' &&
      sockets.some(({ path }) => path === pathOf(request)) &&
      !hasBody(request) &&
      !answering.get(request.socket),
    watch: ({ socket }, response) => {
      answering.set(socket, (answering.get(socket) ?? 0) + 1)
      response.once('close', () => answering.set(socket, answering.get(socket)! - 1))
    },
    take: (request, raw, head) => {
      raw.on('error', () => raw.destroy())
      const refuseOnce = (error: unknown) => {
        if (!raw.destroyed && !raw.writableEnded) refuse(error, request, raw)
      }
      const onStop = () => refuseOnce(new Retry('unavailable', 'The pod stops: connect again'))
      stopping.addEventListener('abort', onStop, { once: true }) // the check of the caller may take longer than the stop
      void takeOver(request, raw as Socket, head)
        .catch(refuseOnce)
        .finally(() => stopping.removeEventListener('abort', onStop))
    },
  }
}

/** A page of another origin must be listed: browsers do not apply CORS to sockets. A program sends no origin. */
function requireAllowedOrigin({ headers: { origin, host } }: IncomingMessage, origins: Origins): void {
  if (origin === undefined || origins.has(origin)) return
  if (host !== undefined && URL.parse(origin)?.host === host.toLowerCase()) return
  throw new Rejected(
    'forbidden',
    `Pages of this origin may not open a socket: add it to ${SETTINGS.corsOrigins.env}`,
  )
}

type Known = { readonly principal: Principal | undefined; readonly refused?: unknown }

/** The caller, if the handshake carries a credential. Pages cannot read the answer to a handshake. So if a credential that pages can send
 *  is refused, the socket opens and is closed with the reason. */
async function callerOf(
  { callers, rateLimits, trustedProxies }: Deps_,
  request: IncomingMessage,
  protocols: readonly string[],
): Promise<Known> {
  const { authorization } = request.headers
  const token = protocols.find((name) => name.startsWith(TOKEN_PROTOCOL))?.slice(TOKEN_PROTOCOL.length)
  const ticket = new URLSearchParams(request.url!.split('?')[1] ?? '').get('ticket') ?? undefined
  const given = [authorization, token, ticket].filter((one) => one !== undefined).length
  if (given === 0) return { principal: undefined }
  if (given > 1)
    throw new Rejected('invalid', 'Send one credential: the header, the subprotocol or the ticket')
  const credentials: Credentials = {
    authorization: token === undefined ? authorization : `Bearer ${token}`,
    ticket,
    address: addressOf(request, trustedProxies),
    isLocal: isLocal(request),
  }
  try {
    const principal = await callers.callerOf(credentials)
    rateLimits.countRequest(principal)
    return { principal }
  } catch (refused) {
    if (authorization !== undefined) throw refused
    return { principal: undefined, refused }
  }
}
type Deps_ = Pick<Deps, 'callers' | 'rateLimits' | 'trustedProxies'>

function protocolsOf({ headers }: IncomingMessage): readonly string[] {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
  return offered.filter((name) => name !== '')
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0
}

function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?')[0]!
}
