// The fields of the public routes, read from the table of routes, and a request in which each can be set: tests that ask every
// route about every field need no list of their own.
import assert from 'node:assert/strict'
import { formatId } from '@fleetline/protocol'
import { z } from 'zod'
import { routeTables } from '../../../../scripts/reference.ts'
import { nameOf, type Route } from '../../src/door/route.ts'

type Schema = z.core.JSONSchema.BaseSchema

export const AGENT = {
  name: 'own',
  url: 'http://127.0.0.1:1/',
  secret: 'whsec_ZmxlZXRsaW5lLWV4YW1wbGUtc2VjcmV0LTAwMDE=',
}
/** What each route with a body is sent, beside the field in question. */
const BODIES: Readonly<Record<string, object>> = {
  'POST /v1/sessions': {},
  'POST /v1/sessions/:session/messages': { message: { parts: [{ type: 'text', text: 'hello' }] } },
  'POST /v1/sessions/:session/stop': {
    turn: formatId('turn', 0, '01980000-0000-7000-8000-000000000000'),
    epoch: 1,
  },
  'POST /v1/agents': AGENT,
  'POST /v1/tasks': { machine: 'work' },
}

/** Every field of every public route, as `body.message.parts[].type`. */
export function everyField(): { readonly route: Route; readonly field: string; readonly schema: Schema }[] {
  return routeTables()[4400].flatMap((route) =>
    (['params', 'query', 'headers', 'body'] as const).flatMap((part) =>
      route[part]
        ? leavesOf(z.toJSONSchema(route[part], { io: 'input', unrepresentable: 'any' }), part).map(
            (leaf) => ({
              route,
              ...leaf,
            }),
          )
        : [],
    ),
  )
}

function leavesOf(schema: Schema, field: string): { readonly field: string; readonly schema: Schema }[] {
  if (schema.anyOf) return schema.anyOf.flatMap((one) => leavesOf(one, field))
  if (schema.properties)
    return Object.entries(schema.properties).flatMap(([name, one]) =>
      typeof one === 'boolean' ? [] : leavesOf(one, `${field}.${name}`),
    )
  if (schema.items) return leavesOf(schema.items as Schema, `${field}[]`)
  return [{ field, schema }]
}

/**
 * A request with this field set to a value, which is JSON in a body and percent-encoded in an address. `session` is one that
 * the caller has.
 */
export function requestWith(
  route: Route,
  field: string,
  value: string,
  session: string,
): { readonly path: string; readonly init: RequestInit } {
  const { method, path, body } = route
  const [part, ...names] = field.split('.')
  const sent = BODIES[nameOf(route)]
  assert.equal(sent !== undefined, body !== undefined, `${nameOf(route)}: a body in BODIES, if it takes one`)
  const named = part === 'params' ? path.replace(`:${names[0]}`, () => value) : path
  const question = part === 'query' ? `?${names[0]}=${value}` : ''
  const json = part === 'body' ? jsonWith(sent!, names, value) : JSON.stringify(sent)
  return {
    path: `${named.replace(':session', session).replace(':user', 'ada')}${question}`,
    init: {
      method,
      ...(sent && { body: json }),
      headers: {
        ...(sent && { 'content-type': 'application/json' }),
        ...(part === 'headers' && { [names[0]!]: value }),
      },
    },
  }
}

/** JSON that need not be the JSON of any value: `1e400`, the key `__proto__`. */
function jsonWith(body: object, names: readonly string[], json: string): string {
  const mark = 'the value of the field'
  return JSON.stringify(withField(body, names, mark)).replace(JSON.stringify(mark), () => json)
}

function withField(value: object, [name = '', ...rest]: readonly string[], mark: string): object {
  const key = name.replace(/\[\]$/, '')
  const inner = (value as Record<string, object | undefined>)[key] ?? {}
  const within = (one: object) => (rest.length === 0 ? mark : withField(one, rest, mark))
  return { ...value, [key]: key === name ? within(inner) : [within((inner as object[])[0] ?? {})] }
}
