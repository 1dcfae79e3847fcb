// Serves one route: lets its caller in, calls its handler, and answers with what the route declares. A stream ends when its caller is not
// let in any more, or should go to another pod.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { Bug, Retry } from '../errors.ts'
import type { PortCallers } from '../identity/callers.ts'
import type { Principal } from '../identity/principal.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { Clock } from '../lib/clock.ts'
import type { Addresses } from '../lib/hosts.ts'
import { mapped } from '../lib/mapped.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { addressOf, isLocal } from './address.ts'
import { record, sendJson, type RouteConfig } from './answer.ts'
import { AG_UI_EVENTS } from './ag-ui-events.ts'
import { EVENTS, type Events } from './events.ts'
import { LINES, type Lines } from './lines.ts'
import type { ClientMoves } from './moving.ts'
import { nameOf, type Route, type RouteAnswer } from './route.ts'
import { outOfScope } from './scope.ts'
import { sendStream, type StreamFormat, type StreamSource } from './stream.ts'
import { UI_CHUNKS, type UiChunks } from './ui-chunks.ts'

type Deps = {
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly callers: PortCallers
  readonly trustedProxies: Addresses
  readonly rateLimits: Pick<RateLimits, 'countRequest'>
  readonly limits: { readonly stallMs: number }
}
/** What the routes of a door share. */
export type Opened = {
  readonly deps: Deps
  readonly stopping: AbortSignal
  readonly moving: ClientMoves
  readonly principals: WeakMap<FastifyRequest, { readonly principal: Principal; readonly atMs: number }>
}

const RECHECK_MS = 2_000
const DRAINS = 'This pod begins no new stream, because it drains: connect again'
const OF_DRAIN = { isForCaller: true }

/** Whether a request was refused because the pod drains, which is no fault. */
export function isOfDrain(error: unknown): boolean {
  return error instanceof Retry && error.fields === OF_DRAIN
}

export function addRoute(server: FastifyInstance, entry: Route, opened: Opened): void {
  const { deps } = opened
  const { method, path, params, query, headers, answers, bodyLimitBytes } = entry
  const { saysFaultsInText = false, isBodyOptional = false, tooLargeText } = entry
  const body = entry.body && isBodyOptional ? z.preprocess((given) => given ?? {}, entry.body) : entry.body
  const handle = entry.handle as (call: object) => ReturnType<Route['handle']>
  server.route({
    method,
    url: path,
    ...(bodyLimitBytes !== undefined && { bodyLimit: bodyLimitBytes }),
    config: { saysFaultsInText, isBodyOptional, tooLargeText } satisfies RouteConfig,
    schema: {
      ...(params ? { params } : {}),
      ...(query ? { querystring: query } : {}),
      ...(headers ? { headers } : {}),
      ...(body ? { body } : {}),
    },
    onRequest: async (request) => admit(opened, entry, request),
    handler: async (request, reply) => {
      const principal = await admitted(opened, request)
      if (isStreamed(answers) && opened.moving.isOn())
        throw new Retry('unavailable', DRAINS, { fields: OF_DRAIN })
      const answer = await handle({
        principal,
        params: request.params,
        query: request.query,
        headers: headers && request.headers,
        body: request.body,
        requestId: request.id,
        address: addressOf(request.raw, deps.trustedProxies),
      })
      const shape = answers[answer.status]
      if (!shape) throw new Bug(`${nameOf(entry)} declares no answer ${answer.status}`)
      reply.code(answer.status).headers(answer.headers ?? {})
      const streamed = { ...opened, recheck: () => recheck(deps, principal, answer) }
      if ('events' in shape || 'agUiEvents' in shape) {
        const [schema, format] = 'events' in shape ? [shape.events, EVENTS] : [shape.agUiEvents, AG_UI_EVENTS]
        const parse: ParserOf<Events> = ({ id, data }) => ({ id, data: schema.parse(data) })
        const until = { stopping: leaving(opened, reply) }
        return stream(reply, answer.body as Events, { ...streamed, ...until, format, parse })
      }
      if ('lines' in shape) {
        const parse: ParserOf<Lines> = (lines) => lines.map((line) => shape.lines.parse(line))
        countDownload(opened, reply)
        return stream(reply, answer.body as Lines, { ...streamed, format: LINES, parse })
      }
      if ('chunks' in shape) {
        countDownload(opened, reply) // its reader does not go on elsewhere by itself
        const parse: ParserOf<UiChunks> = (piece) => piece // agents may send fields that are not declared
        return stream(reply, answer.body as UiChunks, { ...streamed, format: UI_CHUNKS, parse })
      }
      if ('nothing' in shape) return reply.send()
      if ('text' in shape) return reply.type(shape.text).send(answer.body)
      return sendJson(reply, shape.json.parse(answer.body)) // removes fields that the route does not declare
    },
  })
}

function countDownload({ moving }: Opened, { raw }: FastifyReply): void {
  if (!raw.destroyed) raw.once('close', moving.download())
}

function isStreamed(answers: Route['answers']): boolean {
  return Object.values(answers).some(
    (shape) => 'events' in shape || 'agUiEvents' in shape || 'lines' in shape,
  )
}

/** A stream of events ends when its reader should go to another pod. */
function leaving({ deps, stopping, moving }: Opened, reply: FastifyReply): AbortSignal {
  if (reply.raw.destroyed) return stopping // its reader has left, and 'close' does not come again
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
  const credentials = {
    authorization,
    address: addressOf(request.raw, deps.trustedProxies),
    isLocal: isLocal(request.raw),
  }
  const principal = await deps.callers.callerOf(credentials)
  principals.set(request, { principal, atMs: deps.clock.monotonicMs() })
  deps.rateLimits.countRequest(principal)
  const refusal = outOfScope(principal, access)
  if (refusal) throw refusal
}

/** The caller; null for a probe. Throws if the caller lost access while the body arrived. */
async function admitted({ deps, principals }: Opened, request: FastifyRequest): Promise<Principal | null> {
  const known = principals.get(request)
  if (!known) return null
  const { principal, atMs } = known
  if (deps.clock.monotonicMs() >= atMs + RECHECK_MS) await deps.callers.recheck(principal)
  return principal
}

async function recheck({ callers }: Deps, principal: Principal | null, answer: RouteAnswer): Promise<void> {
  if (principal) await callers.recheck(principal)
  await answer.recheck?.()
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
