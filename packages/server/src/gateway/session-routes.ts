// Sessions over HTTP: which there are. What is said in them: message-routes.ts.
import { route, type Route } from '../door/route.ts'
import type { Sessions } from '../session/sessions.ts'
import { notFound, SESSION_ACCESS, type SessionKeys } from './session-key.ts'
import { newSessionSchema, sessionParams, sessionSchema } from './session-schemas.ts'

type Deps = SessionKeys & { readonly sessions: Pick<Sessions, 'create' | 'find'> }

export function sessionRoutes({ sessions, tenantOf, keyOf }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/sessions',
      summary: 'Makes a session.',
      access: SESSION_ACCESS,
      body: newSessionSchema,
      answers: { 201: { means: 'Made.', json: sessionSchema } },
      handle: async ({ principal, body }) => {
        return { status: 201, body: await sessions.create(await tenantOf(principal), body) }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions/:session',
      summary: 'One session.',
      access: SESSION_ACCESS,
      params: sessionParams,
      answers: { 200: { means: 'It is here.', json: sessionSchema } },
      handle: async ({ principal, params }) => {
        const found = await sessions.find(await keyOf(principal, params.session))
        if (!found) throw notFound()
        return { status: 200, body: found }
      },
    }),
  ]
}
