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
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Config } from '../config.ts'
import { Bug, Rejected, Retry } from '../errors.ts'
import type { PortCallers } from '../identity/callers.ts'
import type { Principal } from '../identity/principal.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { RefusedRequest } from '../identity/refused-requests.ts'
import { within, type Clock } from '../lib/clock.ts'
import type { Addresses } from '../lib/hosts.ts'
import type { Service } from '../lib/lifecycle.ts'
import { mapped } from '../lib/mapped.ts'
import type { Origins } from '../lib/origins.ts'
import type { Random } from '../lib/random.ts'
import { SETTINGS } from '../settings.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { addressOf, isLocal } from './address.ts'
import { corsHeaders, isPreflight, PREFLIGHT_HEADERS } from './cors.ts'
import { EVENTS, type Events } from './events.ts'
import { LINES, type Lines } from './lines.ts'
import { bodyOf, NO_ROUTE, refusalOf, statusOf, type Refusal } from './refusal.ts'
import { refusedRequest } from './audited-refusals.ts'
import { readJson } from './json-body.ts'
import { createMoving, type ClientMoves } from './moving.ts'
import { answerFault, HEADER_BYTES, headersOf, headersOfRefusal } from './raw.ts'
import { outOfScope } from './scope.ts'
import { brokenSockets, type SocketRoute } from './socket-route.ts'
import { createUpgrades, type Upgrades } from './upgrade.ts'
import { sendStream, type StreamFormat, type StreamSource } from './stream.ts'
import { brokenRules, nameOf, parserOf, type Audience, type Route, type RouteAnswer } from './route.ts'

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
const RECHECK_MS = 2_000
const LOOK_MS = 1_000 // how often Node checks for late requests; its own 30 s would turn a limit of 10 s into up to 40
const DRAINS = 'This pod begins no new stream, because it drains: connect again'
const FOR_CALLER = { fields: { isForCaller: true } }
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

const NOT_OURS = (host: string) =>
  `${host} is not an address of this machine: set ${SETTINGS.host.env} to one, or to 0.0.0.0 for all`
const LISTEN_FAULTS: Readonly<Record<string, (host: string, port: number) => string>> = {
  EADDRINUSE: (host, port) =>
    `Port ${port} of ${host} is in use: stop the process that uses it, or set another port`,
  EADDRNOTAVAIL: NOT_OURS,
  ENOTFOUND: NOT_OURS,
  EAI_AGAIN: NOT_OURS,
  EINVAL: NOT_OURS,
  EACCES: (_, port) => `The pod needs a right to listen on port ${port}: choose one from 1024 on`,
}

/** What went wrong, and what to do; undefined if the code is not known. */
export function listenFault(code = '', { host, port }: Pick<Deps, 'host' | 'port'>): string | undefined {
  return LISTEN_FAULTS[code]?.(host, port)
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
    const [caller, address] = [principals.get(request)?.principal, clientOf(deps, request)]
    const refused = refusedRequest(error, { caller, address, method, route: routeOptions.url })
    if (refused) deps.onRefused(refused)
    const refusal = refusalOf(error)
    if (statusOf(refusal) >= 500) {
      deps.log.error('request failed', {
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

function addRoute(server: FastifyInstance, entry: Route, opened: Opened): void {
  const { deps } = opened
  const { method, path, params, query, headers, body, answers } = entry
  const handle = entry.handle as (call: object) => ReturnType<Route['handle']>
  server.route({
    method,
    url: path,
    schema: {
      ...(params ? { params } : {}),
      ...(query ? { querystring: query } : {}),
      ...(headers ? { headers } : {}),
      ...(body ? { body } : {}),
    },
    onRequest: async (request) => admit(opened, entry, request),
    handler: async (request, reply) => {
      const principal = await admitted(opened, request)
      if (isStreamed(answers) && opened.moving.isOn()) throw new Retry('unavailable', DRAINS, FOR_CALLER)
      const answer = await handle({
        principal,
        params: request.params,
        query: request.query,
        headers: headers && request.headers,
        body: request.body,
        requestId: request.id,
        address: clientOf(deps, request),
      })
      const shape = answers[answer.status]
      if (!shape) throw new Bug(`${nameOf(entry)} declares no answer ${answer.status}`)
      reply.code(answer.status)
      const streamed = { ...opened, recheck: () => recheck(deps, principal, answer) }
      if ('events' in shape) {
        const parse: ParserOf<Events> = ({ id, data }) => ({ id, data: shape.events.parse(data) })
        const until = { stopping: leaving(opened, reply) }
        return stream(reply, answer.body as Events, { ...streamed, ...until, format: EVENTS, parse })
      }
      if ('lines' in shape) {
        const parse: ParserOf<Lines> = (lines) => lines.map((line) => shape.lines.parse(line))
        if (!reply.raw.destroyed) reply.raw.once('close', opened.moving.download())
        return stream(reply, answer.body as Lines, { ...streamed, format: LINES, parse })
      }
      if ('text' in shape) return reply.type(shape.text).send(answer.body)
      return sendJson(reply, shape.json.parse(answer.body)) // removes fields that the route does not declare
    },
  })
}

function isStreamed(answers: Route['answers']): boolean {
  return Object.values(answers).some((shape) => 'events' in shape || 'lines' in shape)
}

/** A stream of events ends when its reader should go to another pod. */
function leaving({ deps, stopping, moving }: Opened, reply: FastifyReply): AbortSignal {
  if (reply.raw.destroyed) return stopping // its reader has left, and nobody would say so again
  const [left, gone] = [new AbortController(), new AbortController()]
  const leave = moving.enter('streams', {
    ask: (afterMs) =>
      void deps.clock.sleep(afterMs, gone.signal).then(
        () => left.abort(),
        () => undefined, // the reader has left
      ),
    end: () => left.abort(),
  })
  reply.raw.once('close', () => {
    gone.abort()
    leave()
  })
  return AbortSignal.any([stopping, left.signal])
}

/** Finds the caller, unless the route is a probe. Throws if the route does not let it in. */
async function admit(
  { deps, principals }: Opened,
  { access }: Route,
  request: FastifyRequest,
): Promise<void> {
  if (access.audience === 'probe') return
  const { authorization } = request.headers
  const credentials = { authorization, address: clientOf(deps, request), isLocal: isLocal(request.raw) }
  const principal = await deps.callers.callerOf(credentials)
  principals.set(request, { principal, atMs: deps.clock.monotonicMs() })
  deps.rateLimits.countRequest(principal)
  const refusal = outOfScope(principal, access)
  if (refusal) throw refusal
}

/** The caller; null for a probe. Throws if it was not let in any more while the body arrived. */
async function admitted({ deps, principals }: Opened, request: FastifyRequest): Promise<Principal | null> {
  const known = principals.get(request)
  if (!known) return null
  const { principal, atMs } = known
  if (deps.clock.monotonicMs() >= atMs + RECHECK_MS) await deps.callers.recheck(principal)
  return principal
}

/** The address of the client. */
function clientOf({ trustedProxies }: Deps, { raw }: FastifyRequest): string {
  return addressOf(raw, trustedProxies)
}

async function recheck({ callers }: Deps, principal: Principal | null, answer: RouteAnswer): Promise<void> {
  if (principal) await callers.recheck(principal)
  await answer.recheck?.()
}

type Opened = {
  readonly deps: Deps
  readonly stopping: AbortSignal
  readonly moving: ClientMoves
  readonly principals: WeakMap<FastifyRequest, { readonly principal: Principal; readonly atMs: number }>
}
type Streamed<One> = Opened & {
  readonly format: StreamFormat<One>
  /** Removes fields that the route does not declare. */
  readonly parse: (one: One) => One
  readonly recheck: () => Promise<void>
}
type ParserOf<From> = From extends StreamSource<infer One> ? (one: One) => One : never

function stream<One>(
  reply: FastifyReply,
  source: StreamSource<One>,
  { deps, stopping, format, parse, recheck }: Streamed<One>,
) {
  reply.hijack() // takes away the library's time limit: a stream lasts
  // Fastify reports only responses that finish; most streams end when the reader leaves, so they are recorded here.
  reply.raw.once('close', () => reply.raw.writableFinished || record(deps, reply.request, reply))
  void sendStream(reply.raw, {
    source: (listener) => mapped(source(listener), parse),
    format,
    headers: reply.getHeaders(),
    stopping,
    recheck,
    stallMs: deps.limits.stallMs,
    clock: deps.clock,
    onError: (error) =>
      deps.log.error('stream failed', { service: deps.name, request_id: reply.request.id, error }),
  })
  return reply
}

/** Translates Fastify's name for a part of a request into ours. */
function partOf(name = 'request'): string {
  return name === 'querystring' ? 'query' : name
}

function refuse(reply: FastifyReply, refusal: Refusal): FastifyReply {
  reply.headers(headersOfRefusal(refusal)).code(statusOf(refusal))
  return sendJson(reply, bodyOf(refusal, reply.request.id))
}

function sendJson(reply: FastifyReply, body: unknown): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(body))
}

function record({ name, metrics, log }: Deps, request: FastifyRequest, reply: FastifyReply): void {
  const route = request.routeOptions.url ?? 'none'
  const [status, ms] = [reply.statusCode, reply.elapsedTime]
  metrics.count('httpRequests', { door: name, route, status: String(status) })
  metrics.observe('httpTime', { door: name, route }, ms)
  const fields = { service: name, request_id: request.id, method: request.method, route, status }
  log.debug('request', { ...fields, duration_ms: Math.round(ms) })
}
