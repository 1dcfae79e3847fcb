// Routes for sessions: create one, list them, get one. Messages: message-routes.ts.
import type { Session } from '@fleetline/protocol'
import type { Agents } from '../agent/agents.ts'
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
  readonly agents: Pick<Agents, 'has'>
}

export function sessionRoutes({ sessions, agents, tenantOf, keyOf }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/sessions',
      summary:
        "Makes a session. In one with an agent, a user's message is answered; without, it is a plain log. With an alias, which stands wherever its id may, there is one: asked again with the same agent, it is answered as it is.",
      access: CALLER_ACCESS,
      body: newSessionSchema,
      answers: {
        200: { means: 'There already, under this alias.', json: sessionSchema },
        201: { means: 'Made.', json: sessionSchema },
      },
      handle: async ({ principal, body }) => {
        const tenant = await tenantOf(principal)
        if (body.agent !== null && !(await agents.has(tenant, body.agent)))
          throw new Rejected('invalid', `body.agent: there is no agent ${body.agent}`)
        const { session, isNew } = await sessions.create(tenant, body)
        if (session.agent !== body.agent)
          throw new Rejected(
            'conflict',
            `The alias ${body.alias} is taken by a session ${withAgent(session)}.`,
          )
        return { status: isNew ? 201 : 200, body: session }
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
        const at = before === undefined ? undefined : await keyOf(principal, before)
        const range = { limit, ...(at && { before: at.session }) }
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
}

function withAgent({ agent }: Session): string {
  return agent === null ? 'without an agent' : `with the agent ${agent}`
}
