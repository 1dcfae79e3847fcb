// A route as a value: what it answers, to whom, in whose name. The door refuses to open over a route whose access is
// not declared, or is declared wrongly (S2, security §4.1): `brokenRules` is that refusal, and it is pure.
import type { z } from 'zod'
import type { SentEvent } from './events.ts'

/** `probe`: anyone who reaches the port. `key`: an application. `admin`: an operator. */
export type Audience = 'probe' | 'key' | 'admin'

export type RouteAccess = {
  readonly audience: Audience
  /** Whose data: nobody's, or that of the caller, whose tenant the door has found out. */
  readonly tenant: 'none' | 'caller'
}

export type Principal = { readonly tenant: string }

export type RouteCall<Params, Query, Body, Headers> = {
  /** Null where the route has no tenant. */
  readonly principal: Principal | null
  readonly params: Params
  readonly query: Query
  readonly headers: Headers
  readonly body: Body
  readonly requestId: string
}

/** What a status means, and its body: JSON of a schema, a text of the named media type, or events of a schema. */
export type AnswerShape = { readonly means: string } & (
  | { readonly json: z.ZodType }
  | { readonly text: string }
  | { readonly events: z.ZodType<SentEvent['data']> }
)

/** The body of an answer with events is an `Events`. */
export type RouteAnswer = { readonly status: number; readonly body: unknown }

export type Route = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Parameters as Fastify writes them: `/v1/things/:id`. */
  readonly path: string
  readonly summary: string
  readonly access: RouteAccess
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  /** Those that it reads, in lower case; no other reaches the handler. */
  readonly headers?: z.ZodType
  readonly body?: z.ZodType
  readonly answers: Readonly<Record<number, AnswerShape>>
  readonly handle: (call: RouteCall<never, never, never, never>) => RouteAnswer | Promise<RouteAnswer>
}

type Input<Params, Query, Body, Headers> = {
  readonly params?: z.ZodType<Params>
  readonly query?: z.ZodType<Query>
  readonly headers?: z.ZodType<Headers>
  readonly body?: z.ZodType<Body>
  readonly handle: (call: RouteCall<Params, Query, Body, Headers>) => RouteAnswer | Promise<RouteAnswer>
}

/** Ties what a handler is given to the route's schemas. */
export function route<Params = undefined, Query = undefined, Body = undefined, Headers = undefined>(
  definition: Omit<Route, keyof Input<Params, Query, Body, Headers>> & Input<Params, Query, Body, Headers>,
): Route {
  return definition
}

/** Why a door for these audiences must not open over these routes; one sentence each, empty if it may. */
export function brokenRules(routes: readonly Route[], audiences: readonly Audience[]): string[] {
  const seen = new Set<string>()
  return routes.flatMap((entry) => {
    const name = nameOf(entry)
    const broken = brokenRule(entry, audiences) ?? (seen.has(name) ? 'is there twice' : undefined)
    seen.add(name)
    return broken === undefined ? [] : [`${name} ${broken}`]
  })
}

export function nameOf({ method, path }: Pick<Route, 'method' | 'path'>): string {
  return `${method} ${path}`
}

function brokenRule(
  { access }: { readonly access?: Partial<RouteAccess> },
  audiences: readonly Audience[],
): string | undefined {
  if (!access?.audience) return 'does not declare who may call it'
  if (!access.tenant) return 'does not declare where its tenant comes from'
  if (!audiences.includes(access.audience)) return `is for ${access.audience}, whom this door does not serve`
  if (access.audience === 'probe' && access.tenant === 'caller')
    return 'takes the tenant of a caller whom nobody knows'
  return undefined
}
