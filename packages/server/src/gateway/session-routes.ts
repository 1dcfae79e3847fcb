// Sessions over HTTP: which there are, one by one and in a list. What is said in them: message-routes.ts.
import type { Agents } from '../agent/agent.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Sessions } from '../session/sessions.ts'
import { CALLER_ACCESS, type TenantOf } from './caller.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import {
  newSessionSchema,
  sessionParams,
  sessionSchema,
  sessionsQuery,
  sessionsSchema,
} from './session-schemas.ts'

type Deps = SessionKeys & {
  readonly tenantOf: TenantOf
  readonly sessions: Pick<Sessions, 'create' | 'find' | 'list'>
  readonly agents: Agents
}

export function sessionRoutes({ sessions, agents, tenantOf, uuidOf, keyOf }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/sessions',
      summary:
        "Makes a session. In one with an agent, a user's message is answered; without, it is a plain log.",
      access: CALLER_ACCESS,
      body: newSessionSchema,
      answers: { 201: { means: 'Made.', json: sessionSchema } },
      handle: async ({ principal, body }) => {
        if (body.agent !== null && !agents.has(body.agent))
          throw new Rejected('invalid', `body.agent: this pod has no agent ${body.agent}`)
        return { status: 201, body: await sessions.create(await tenantOf(principal), body) }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions',
      summary: 'Sessions, the newest first: those made before the session `before`, or the last ones made.',
      access: CALLER_ACCESS,
      query: sessionsQuery,
      answers: { 200: { means: 'At most `limit`; fewer are the last.', json: sessionsSchema } },
      handle: async ({ principal, query: { before, limit } }) => {
        const range = before === undefined ? { limit } : { before: placeOf(before), limit }
        return { status: 200, body: { sessions: await sessions.list(await tenantOf(principal), range) } }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions/:session',
      summary: 'One session.',
      access: CALLER_ACCESS,
      params: sessionParams,
      answers: { 200: { means: 'It is here.', json: sessionSchema } },
      handle: async ({ principal, params }) => {
        const found = await sessions.find(await keyOf(principal, params.session))
        if (!found) throw notFound()
        return { status: 200, body: found }
      },
    }),
  ]

  /** A place in the list: whether that session is there does not matter, nor whose it is. */
  function placeOf(id: string): string {
    const uuid = uuidOf(id)
    if (uuid === undefined) throw new Rejected('invalid', 'query.before: is not the id of a session here')
    return uuid
  }
}
