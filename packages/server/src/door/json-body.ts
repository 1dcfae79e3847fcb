// Reads JSON of a request. Rejects a text that is nested too deep before it is parsed.
import type { FastifyInstance } from 'fastify'
import { JSON_LIMITS, jsonTextFault } from '@fleetline/protocol'
import { configOf } from './answer.ts'
import { Rejected } from '../errors.ts'

/** The depth of stored JSON, and of what surrounds it. */
export const BODY_JSON = { depth: JSON_LIMITS.depth + 8, keys: Infinity }

export function readJson(server: FastifyInstance): void {
  const parse = server.getDefaultJsonParser('error', 'error')
  server.removeContentTypeParser(['application/json', 'text/plain']) // only JSON is added again: every other type is rejected
  server.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '' && configOf(request).isBodyOptional) return done(null, undefined)
    const fault = jsonTextFault(String(body), BODY_JSON)
    if (fault === undefined) void parse(request, String(body), done)
    else done(new Rejected('invalid', `The body is ${fault}.`))
  })
}
