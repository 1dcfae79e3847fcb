// Calls the handler of an HTTP route from the pod's own process, with the same validation, so that both behave alike. Errors are
// the library's own, with a `code` and a `status`.
import { nameOf, parserOf, type Route } from '../door/route.ts'
import { Bug, Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'

type Input = { readonly params?: object; readonly query?: object; readonly body?: object }
/** Calls the route with this name, such as `GET /v1/sessions`. */
export type RouteCaller = <Body>(name: string, input: Input) => Promise<Body>

type Deps = { readonly routes: readonly Route[]; readonly principal: () => Promise<Principal> }

export function createRouteCaller({ routes, principal }: Deps): RouteCaller {
  const byName = new Map(routes.map((route) => [nameOf(route), route]))
  return async <Body>(name: string, input: Input): Promise<Body> => {
    const route = byName.get(name)
    if (!route) throw new Bug(`There is no route ${name}`)
    const { body } = await (route.handle as (call: object) => ReturnType<Route['handle']>)({
      principal: await principal(),
      requestId: 'in-process',
      address: null,
      params: parsed(route.params, 'params', input.params ?? {}),
      query: parsed(route.query, 'query', texts(input.query ?? {})),
      headers: {},
      body: parsed(route.body, 'body', asJson(input.body ?? {})),
    })
    return body as Body
  }
}

function parsed(schema: Route['body'], part: string, value: object): unknown {
  if (!schema) return undefined
  const result = parserOf(schema, part)(value)
  if ('error' in result) throw result.error
  return result.value
}

/** Converts a body as if it had come over HTTP. */
function asJson(body: object): object {
  try {
    return JSON.parse(JSON.stringify(body)) as object
  } catch (cause) {
    throw new Rejected('invalid', 'A message must be JSON', { cause })
  }
}

/** Converts values to text, as in the query string of a URL. */
function texts(query: object): Record<string, string> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]))
}
