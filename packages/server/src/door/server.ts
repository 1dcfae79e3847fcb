// A door: one HTTP port that serves a table of routes. Guarantees:
//   A route without declared access keeps the door closed, and the error names it. So does a route that a library adds (S2).
//   A handler runs only for a caller whom the route lets in, by the scope or the right that the route declares. The door finds
//   the caller before it parses the body, and asks again if the body took long. A stream ends when its caller is not let in any
//   more (S9).
//   A page of another origin may read an answer only if the origin is listed (S36).
//   A handler gets input that its schemas have parsed, and the caller; it gets no raw header.
//   Every failure is JSON of one shape with a request id, even for input that is not HTTP (S21).
//   Limits of size and time are ours, not the library's (S18). Logs contain no text from outside except method and route (S22).
// start() listens. stop() ends streams, lets other answers finish, and after `stopMs` closes all open connections.
import type { AddressInfo, Socket } from 'node:net'
import { fastify, type FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { Config } from '../config.ts'
import { Bug, Rejected } from '../errors.ts'
import type { PortCallers } from '../identity/callers.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { RefusedRequest } from '../identity/refused-requests.ts'
import { within, type Clock } from '../lib/clock.ts'
import type { Addresses } from '../lib/hosts.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Origins } from '../lib/origins.ts'
import type { Random } from '../lib/random.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { addressOf } from './address.ts'
import { configOf, record, refuse } from './answer.ts'
import { listenFault } from './listen-fault.ts'
import { addRoute, isOfDrain, type Opened } from './serve-route.ts'
import { corsHeaders, isPreflight, PREFLIGHT_HEADERS } from './cors.ts'
import { NO_ROUTE, refusalOf, statusOf } from './refusal.ts'
import { refusedRequest } from './audited-refusals.ts'
import { readJson } from './json-body.ts'
import { createMoving, type ClientMoves } from './moving.ts'
import { answerFault, HEADER_BYTES, headersOf } from './raw.ts'
import { brokenSockets, type SocketRoute } from './socket-route.ts'
import { createUpgrades, type Upgrades } from './upgrade.ts'
import { brokenRules, nameOf, parserOf, type Audience, type Route } from './route.ts'

type Door = Service & {
  /** Asks the clients of sockets and event streams to go to another pod, and takes no new ones. Resolves when all have left and no
   *  download runs, or after this time. */
  move(mostMs: number): Promise<void>
  /** Takes new ones again. */
  stay(): void
  clients(): { readonly sockets: number; readonly streams: number }
  /** The port that it listens on, also if 0 was asked for. */
  port(): number
}

type Limits = Pick<
  Config,
  | 'bodyLimitBytes'
  | 'headerTimeoutMs'
  | 'requestTimeoutMs'
  | 'requestsPerSocket'
  | 'stallMs'
  | 'stopMs'
  | 'maxSockets'
>
type Deps = {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly audiences: readonly Audience[]
  readonly routes: readonly Route[]
  readonly sockets?: readonly SocketRoute[]
  readonly limits: Limits
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly metrics: Metrics
  readonly callers: PortCallers
  readonly corsOrigins: Origins
  readonly trustedProxies: Addresses
  readonly rateLimits: Pick<RateLimits, 'countRequest'>
  /** Called for requests that belong in the audit log. */
  readonly onRefused: (refused: RefusedRequest) => void
  /** Whether the pod is stopping. It still answers but asks clients to reconnect. */
  readonly isDraining: () => boolean
}

const PARAM_LENGTH = 9 * 128 // a user id of 128 characters that are three bytes each, percent-encoded
const KEEP_ALIVE_MS = 65_000 // longer than the 60 s of common load balancers: they close first
const LOOK_MS = 1_000 // how often Node checks for late requests; its own 30 s would turn a limit of 10 s into up to 40
const LATE = new Error('Answers are still under way')

export function createDoor(deps: Deps): Door {
  const { name, host, clock, log, limits } = deps
  const stopping = new AbortController()
  const moving = createMoving(deps)
  const server = buildServer(deps, stopping.signal, moving)
  const close = async () => {
    stopping.abort()
    const closed = server.close()
    await within(clock, limits.stopMs, closed, LATE).catch(async (error: unknown) => {
      if (error !== LATE) throw error
      server.server.closeAllConnections()
      await closed
    })
  }
  let closing: Promise<void> | undefined
  const port = () => (server.server.address() as AddressInfo | null)?.port ?? deps.port
  return {
    name,
    start: async () => {
      await server.listen({ host, port: deps.port }).catch((cause: NodeJS.ErrnoException) => {
        const fault = listenFault(cause.code, deps)
        throw fault === undefined ? cause : new Rejected('invalid', fault, { cause })
      })
      log.info('listening', { service: name, host, port: port() })
    },
    stop: () => (closing ??= close()),
    port,
    move: moving.begin,
    stay: moving.cancel,
    clients: moving.count,
  }
}

/** Builds the server before it listens. Its streams end when the signal is aborted. */
export function buildServer(
  deps: Deps,
  stopping: AbortSignal,
  moving: ClientMoves = createMoving(deps),
): FastifyInstance {
  const { routes, sockets = [], audiences, limits } = deps
  const broken = [...brokenRules(routes, audiences), ...brokenSockets(sockets, audiences)]
  if (broken.length > 0) throw new Bug(`The ${deps.name} door does not open: ${broken.join('; ')}`)
  const drawId = () => `req_${Buffer.from(deps.random.bytes(12)).toString('base64url')}`
  const upgrades =
    sockets.length > 0 ? createUpgrades({ ...deps, sockets, limits, drawId, stopping, moving }) : undefined
  const server = openServer(deps, drawId, upgrades)
  const principals: Opened['principals'] = new WeakMap()
  const declared = new Set(routes.map(nameOf))
  server.addHook('onRoute', ({ method, url }) => {
    const added = `${String(method)} ${url}`
    if (!declared.has(added))
      throw new Bug(`The ${deps.name} door does not open: ${added} is in no table of routes`)
  })
  server.addHook('onRequest', async (request, reply) => {
    reply.headers(headersOf(request.id))
    if (deps.isDraining()) reply.header('connection', 'close') // so that the client reconnects, to another pod
    reply.headers(corsHeaders(request.raw, deps.corsOrigins))
    if (!isPreflight(request.raw)) return
    if (reply.hasHeader('access-control-allow-origin')) reply.headers(PREFLIGHT_HEADERS)
    return reply.code(204).send()
  })
  server.addHook('onResponse', async (request, reply) => record(deps, request, reply))
  server.setNotFoundHandler((_, reply) => refuse(reply, NO_ROUTE))
  server.setErrorHandler((error, request, reply) => {
    const { method, routeOptions } = request
    const [caller, address] = [
      principals.get(request)?.principal,
      addressOf(request.raw, deps.trustedProxies),
    ]
    const refused = refusedRequest(error, { caller, address, method, route: routeOptions.url })
    if (refused) deps.onRefused(refused)
    const refusal = refusalOf(error, configOf(request))
    if (statusOf(refusal) >= 500) {
      deps.log[isOfDrain(error) ? 'info' : 'error']('request failed', {
        service: deps.name,
        request_id: request.id,
        code: refusal.code,
        error,
      })
    }
    return refuse(reply, refusal)
  })
  for (const entry of routes) addRoute(server, entry, { deps, stopping, moving, principals })
  return server
}

function openServer(
  { limits, name, log, corsOrigins }: Deps,
  drawId: () => string,
  upgrades: Upgrades | undefined,
): FastifyInstance {
  const server = fastify({
    logger: false,
    exposeHeadRoutes: false, // only declared routes answer
    requestIdHeader: false,
    genReqId: drawId,
    bodyLimit: limits.bodyLimitBytes,
    requestTimeout: limits.requestTimeoutMs,
    handlerTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: PARAM_LENGTH },
    maxRequestsPerSocket: limits.requestsPerSocket,
    forceCloseConnections: 'idle',
    return503OnClosing: false, // a request on an open connection is served, and the client is told to close
    http: {
      maxHeaderSize: HEADER_BYTES,
      headersTimeout: Math.min(limits.headerTimeoutMs, limits.requestTimeoutMs),
      connectionsCheckingInterval: LOOK_MS,
      shouldUpgradeCallback: (request) => upgrades?.isWanted(request) === true, // other upgrades are answered as plain requests
    },
    clientErrorHandler: (error, socket) => {
      log.debug('not HTTP', { service: name, code: error.code })
      answerFault(error.code, socket, drawId())
    },
    frameworkErrors: (error, request, reply) => {
      reply.headers(corsHeaders(request.raw, corsOrigins))
      refuse(reply.headers(headersOf(request.id)), refusalOf(error))
    },
  })
  if (upgrades) server.server.on('request', upgrades.watch).on('upgrade', upgrades.take)
  keepAddress(server)
  readJson(server)
  server.setValidatorCompiler(({ schema, httpPart }) => parserOf(schema as z.ZodType, partOf(httpPart)))
  return server
}

/** Node.js cannot tell the address of a connection that was reset. It keeps the address that was read before. */
function keepAddress({ server }: FastifyInstance): void {
  server.on('connection', (socket: Socket) => void (socket.remoteAddress ?? socket.destroy()))
}

/** Translates Fastify's name for a part of a request into ours. */
function partOf(name = 'request'): string {
  return name === 'querystring' ? 'query' : name
}
