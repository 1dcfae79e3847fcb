// Lists the fields of all public routes from the route table, and builds a request that sets one of them. Tests of every field
// share this list.
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
/** A valid body for each route that takes one; the tested field is set in it. */
const BODIES: Readonly<Record<string, object>> = {
  'POST /v1/sessions': {},
  'PATCH /v1/sessions/:session': { title: 'own' },
  'POST /v1/sessions/:session/messages': { message: { parts: [{ type: 'text', text: 'hello' }] } },
  'POST /v1/sessions/:session/stop': {
    turn: formatId('turn', 0, '01980000-0000-7000-8000-000000000000'),
    epoch: 1,
  },
  'POST /v1/sessions/:session/regenerate': { epoch: 1 },
  'PUT /v1/sessions/:session/messages/:message': { epoch: 0, parts: [{ type: 'text', text: 'hello' }] },
  'POST /v1/chat': {
    id: 'own',
    message: { id: 'm', role: 'user', parts: [{ type: 'text', text: 'hello' }] },
  },
  'POST /v1/chat/:id/stop': {},
  'POST /v1/sessions/:session/read': { seq: 1, user: 'ada' },
  'POST /v1/agents': AGENT,
  'PATCH /v1/agents/:agent': { window: { messages: 1 } },
  'POST /v1/tasks': { machine: 'work' },
  'PATCH /v1/tenant': { defaultAgent: null },
  'PUT /v1/retention': { keepDays: null },
  'POST /v1/tokens': { user: 'ada' },
  'POST /v1/tokens/revoke': { user: 'ada' },
  'POST /v1/tenants': { name: 'own' },
  'POST /v1/issuers': { name: 'own', tenant: 'dev', issuer: 'https://login.test/', audience: 'chat' },
  'POST /v1/keys': { name: 'own' },
  'POST /v1/pods/:pod/drain': { dryRun: true },
}

/** A valid query for each route that needs one. */
const QUERIES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'GET /v1/inbox': { user: 'ada' },
  'GET /v1/inbox/events': { user: 'ada' },
}

/** Ids for the parameters of a path. */
export type Known = Readonly<Record<string, string>>

/** Every field of every public route, for example `body.message.parts[].type`. */
export function everyField(): { readonly route: Route; readonly field: string; readonly schema: Schema }[] {
  return routeTables()[4400].flatMap((route) => {
    const leaves = (['params', 'query', 'headers', 'body'] as const).flatMap((part) =>
      route[part] ? leavesOf(z.toJSONSchema(route[part], { io: 'input', unrepresentable: 'any' }), part) : [],
    )
    return leaves.map((leaf) => ({ route, ...leaf }))
  })
}

function leavesOf(schema: Schema, field: string): { readonly field: string; readonly schema: Schema }[] {
  const options = schema.anyOf ?? schema.oneOf ?? schema.allOf
  if (options) return options.flatMap((one) => leavesOf(one, field))
  if (schema.properties)
    return Object.entries(schema.properties).flatMap(([name, one]) =>
      typeof one === 'boolean' ? [] : leavesOf(one, `${field}.${name}`),
    )
  if (schema.items) return leavesOf(schema.items as Schema, `${field}[]`)
  return [{ field, schema }]
}

/** A valid request for this route. */
export function plainRequest(
  route: Route,
  known: Known,
): { readonly path: string; readonly init: RequestInit } {
  const { method, path, body } = route
  const sent = BODIES[nameOf(route)]
  assert.equal(
    sent !== undefined,
    body !== undefined,
    `${nameOf(route)}: add its body to BODIES, or remove it`,
  )
  const filled = path.replace(
    /:(\w+)/g,
    (_, name: string) => known[name] ?? assert.fail(`${path}: add a value for ${name} to known`),
  )
  const headers = { ...(sent && { 'content-type': 'application/json' }) }
  return {
    path: `${filled}${queryText(QUERIES[nameOf(route)])}`,
    init: { method, headers, ...(sent && { body: JSON.stringify(sent) }) },
  }
}

/** The same request with this field set. `value` is JSON in a body and percent-encoded in an address. */
export function requestWith(route: Route, field: string, value: string, known: Known) {
  const [part, ...names] = field.split('.') as [string, string, ...string[]]
  const { path, init } = plainRequest(route, part === 'params' ? { ...known, [names[0]]: value } : known)
  if (part === 'query') {
    const query = { ...QUERIES[nameOf(route)], [names[0]]: value }
    return { path: `${path.split('?')[0]!}${queryText(query)}`, init }
  }
  if (part === 'headers') return { path, init: { ...init, headers: { ...init.headers, [names[0]]: value } } }
  if (part !== 'body') return { path, init }
  const sent = field === 'body.text' ? {} : BODIES[nameOf(route)]! // a body has either `text` or `message`
  return { path, init: { ...init, body: jsonWith(sent, names, value) } }
}

function queryText(query: Readonly<Record<string, string>> = {}): string {
  const fields = Object.entries(query).map(([name, value]) => `${name}=${value}`)
  return fields.length === 0 ? '' : `?${fields.join('&')}`
}

/** Inserts the JSON as text: JSON.stringify cannot produce `1e400` or the key `__proto__`. */
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
