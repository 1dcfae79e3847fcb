// A route as a value: what it answers, who may call it, and whose data it uses. The door refuses to open with a route whose
// access is not declared, or is declared wrongly (S2). `brokenRules` makes that check; it is pure.
import type { z } from 'zod'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import { isScopeOf, RIGHTS, type OperatorScope, type Right, type TenantScope } from '../identity/scopes.ts'
import type { SentEvent } from './events.ts'
import { inPlainWords, MISSING } from './plain-words.ts'

/** `probe`: anyone who can reach the port. `key`: an application. `client`: an application, or a user with a token. `admin`: an
 *  operator. */
export type Audience = 'probe' | 'key' | 'client' | 'admin'

/** `tenant`: whose data the route uses; `caller` is the tenant of the caller. `scope`: what the caller's key must have.
 *  `right`: what a user's token must have. */
export type RouteAccess =
  | { readonly audience: 'probe'; readonly tenant: 'none' }
  | { readonly audience: 'key'; readonly tenant: 'caller'; readonly scope: TenantScope }
  | {
      readonly audience: 'client'
      readonly tenant: 'caller'
      readonly scope: TenantScope
      readonly right: Right
    }
  | { readonly audience: 'admin'; readonly tenant: 'none'; readonly scope: OperatorScope }

/** Of a route whose caller is known. */
export type KnownAccess = Exclude<RouteAccess, { readonly audience: 'probe' }>

export type RouteCall<Params, Query, Body, Headers> = {
  /** Null for a probe. */
  readonly principal: Principal | null
  readonly params: Params
  readonly query: Query
  readonly headers: Headers
  readonly body: Body
  readonly requestId: string
  /** Of the client; null for a call from the pod's own process. */
  readonly address: string | null
}

/** What a status means, and the body it comes with: nothing, JSON of a schema, text of the named media type, events of a schema, lines of
 *  JSON of a schema, or chunks of the AI SDK. `agUiEvents`: events whose type is in their data alone. */
export type AnswerShape = { readonly means: string } & (
  | { readonly json: z.ZodType }
  | { readonly text: string }
  | { readonly events: z.ZodType<SentEvent['data']> }
  | { readonly agUiEvents: z.ZodType<SentEvent['data']> }
  | { readonly lines: z.ZodType<object> }
  | { readonly chunks: z.ZodType<{ readonly type: string }> }
  | { readonly nothing: true }
)

/** The body of an answer with events of either kind is an `Events`, that of one with lines a `Lines`, that of one with chunks a `UiChunks`. */
export type RouteAnswer = {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Asked every 2 s while events or lines are sent. Throws a `Rejected` if the caller may not see them any more. */
  readonly recheck?: () => Promise<unknown>
}

export type Route = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With parameters in Fastify's notation: `/v1/things/:id`. */
  readonly path: string
  readonly summary: string
  readonly access: RouteAccess
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  /** The headers that the route reads, in lower case. The handler gets no others. */
  readonly headers?: z.ZodType
  readonly body?: z.ZodType
  readonly answers: Readonly<Record<number, AnswerShape>>
  /** The largest body, in bytes, if it differs from that of other routes. */
  readonly bodyLimitBytes?: number
  /** What a larger body is answered with. Default: a sentence that fits every route. */
  readonly tooLargeText?: string
  /** An empty body counts as {}. */
  readonly isBodyOptional?: boolean
  /** Failures are a sentence of plain text, because the client shows the body to people. */
  readonly saysFaultsInText?: boolean
  readonly handle: (call: RouteCall<never, never, never, never>) => RouteAnswer | Promise<RouteAnswer>
}

type Input<Params, Query, Body, Headers> = {
  readonly params?: z.ZodType<Params>
  readonly query?: z.ZodType<Query>
  readonly headers?: z.ZodType<Headers>
  readonly body?: z.ZodType<Body>
  readonly handle: (call: RouteCall<Params, Query, Body, Headers>) => RouteAnswer | Promise<RouteAnswer>
}

/** Ties the handler's input types to the route's schemas. */
export function route<Params = undefined, Query = undefined, Body = undefined, Headers = undefined>(
  definition: Omit<Route, keyof Input<Params, Query, Body, Headers>> & Input<Params, Query, Body, Headers>,
): Route {
  return definition
}

/** Says why a door for these audiences must not open with these routes: one sentence each, empty if it may. */
export function brokenRules(routes: readonly Route[], audiences: readonly Audience[]): string[] {
  const seen = new Set<string>()
  return routes.flatMap((entry) => {
    const name = nameOf(entry)
    const broken = brokenAccess(entry, audiences) ?? (seen.has(name) ? 'is there twice' : undefined)
    seen.add(name)
    return broken === undefined ? [] : [`${name} ${broken}`]
  })
}

export function nameOf({ method, path }: Pick<Route, 'method' | 'path'>): string {
  return `${method} ${path}`
}

/** Why a door for these audiences must not serve this. */
export function brokenAccess(
  { access }: { readonly access?: { audience?: Audience; tenant?: string; scope?: string; right?: string } },
  audiences: readonly Audience[],
): string | undefined {
  if (!access?.audience) return 'does not declare who may call it'
  if (!access.tenant) return 'does not declare where its tenant comes from'
  if (!audiences.includes(access.audience)) return `is for ${access.audience}, whom this door does not serve`
  if (access.audience === 'probe' && access.tenant === 'caller')
    return 'takes the tenant of a caller whom nobody knows'
  if (access.audience === 'probe') return undefined
  if (access.scope === undefined) return 'does not declare which scope it needs'
  if (!isScopeOf(access.audience === 'admin' ? 'operator' : 'tenant', access.scope))
    return `needs the scope ${access.scope}, which no key for it can have`
  if (access.audience === 'client' && !Object.hasOwn(RIGHTS, access.right ?? ''))
    return 'does not declare which right a user needs'
  return undefined
}

/** Parses one part of a request; the error names the field, or all fields that are missing. */
export function parserOf<Value>(schema: z.ZodType<Value>, part: string) {
  return (
    value: unknown,
  ): { readonly value: Value; readonly error?: never } | { readonly error: Rejected } => {
    const parsed = schema.safeParse(value, { error: inPlainWords })
    if (parsed.success) return { value: parsed.data }
    const { issues } = parsed.error
    const [issue] = issues
    const named = issue?.message === MISSING ? issues.filter(({ message }) => message === MISSING) : [issue]
    const texts = named.map(
      (one) => `${[part, ...(one?.path ?? [])].join('.')}: ${one?.message ?? 'is not well formed'}`,
    )
    return { error: new Rejected('invalid', texts.join('; ')) }
  }
}
