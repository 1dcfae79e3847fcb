// What every answer has in common.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { headersOfRefusal } from './raw.ts'
import type { Route } from './route.ts'
import { bodyOf, statusOf, type Refusal } from './refusal.ts'

type Deps = { readonly name: string; readonly metrics: Metrics; readonly log: Log }

export const FAULT_TEXT = 'text/plain; charset=utf-8'

/** What a route says about its requests that are not answered by its handler. */
export type RouteConfig = {
  readonly [Name in 'saysFaultsInText' | 'isBodyOptional' | 'tooLargeText']?: Route[Name] | undefined
}

export function configOf({ routeOptions }: FastifyRequest): RouteConfig {
  return (routeOptions.config as RouteConfig | undefined) ?? {}
}

export function refuse(reply: FastifyReply, refusal: Refusal): FastifyReply {
  reply.headers(headersOfRefusal(refusal)).code(statusOf(refusal))
  if (configOf(reply.request).saysFaultsInText) return reply.type(FAULT_TEXT).send(refusal.text)
  return sendJson(reply, bodyOf(refusal, reply.request.id))
}

export function sendJson(reply: FastifyReply, body: unknown): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(body))
}

/** Counts and times an answer that is over. */
export function record({ name, metrics, log }: Deps, request: FastifyRequest, reply: FastifyReply): void {
  const route = request.routeOptions.url ?? 'none'
  const [status, ms] = [reply.statusCode, reply.elapsedTime]
  metrics.count('httpRequests', { door: name, route, status: String(status) })
  metrics.observe('httpTime', { door: name, route }, ms)
  const fields = { service: name, request_id: request.id, method: request.method, route, status }
  log.debug('request', { ...fields, duration_ms: Math.round(ms) })
}
