// Routes for sessions: create one, list them, get one. Messages: message-routes.ts.
import type { Session } from '@fleetline/protocol'
import type { Agents } from '../agent/agents.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Sessions } from '../session/sessions.ts'
import { accessWith, tenantOf } from './caller.ts'
import { notFound, type SessionKeys } from './session-key.ts'
import {
  newSessionSchema,
  sessionParams,
  sessionSchema,
  sessionsQuery,
  sessionsSchema,
} from './session-schemas.ts'

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'create' | 'find' | 'list'>
  readonly agents: Pick<Agents, 'has'>
}

export function sessionRoutes({ sessions, agents, keyOf }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/sessions',
      summary:
        "Creates a session. With an agent, users' messages get a reply; without one, the session is a plain log. You can use the alias instead of the id. If a session with this alias and agent exists, it is returned.",
      access: accessWith('sessions:write'),
      body: newSessionSchema,
      answers: {
        200: { means: 'A session with this alias exists.', json: sessionSchema },
        201: { means: 'Created.', json: sessionSchema },
      },
      handle: async ({ principal, body }) => {
        const tenant = tenantOf(principal)
        if (body.agent !== null && !(await agents.has(tenant, body.agent)))
          throw new Rejected(
            'invalid',
            `body.agent: there is no agent ${body.agent}. Start a pod whose app exports this agent, or add its URL: fleetline agents add ${body.agent} URL`,
          )
        const { session, isNew } = await sessions.create(tenant, body)
        if (session.agent !== body.agent)
          throw new Rejected(
            'conflict',
            `The alias "${body.alias}" belongs to session ${session.session}, which has ${agentOf(session)}. Choose another alias, or use that session.`,
          )
        return { status: isNew ? 201 : 200, body: session }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions',
      summary: 'Lists sessions, the newest first; with `before`, those created before that session.',
      access: accessWith('sessions:read'),
      query: sessionsQuery,
      answers: {
        200: { means: 'At most `limit` sessions. A shorter list is the last page.', json: sessionsSchema },
      },
      handle: async ({ principal, query: { before, limit } }) => {
        const at = before === undefined ? undefined : await keyOf(principal, before)
        const range = { limit, ...(at && { before: at.session }) }
        return { status: 200, body: { sessions: await sessions.list(tenantOf(principal), range) } }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions/:session',
      summary: 'Shows a session.',
      access: accessWith('sessions:read'),
      params: sessionParams,
      answers: { 200: { means: 'The session.', json: sessionSchema } },
      handle: async ({ principal, params }) => {
        const found = await sessions.find(await keyOf(principal, params.session))
        if (!found) throw notFound()
        return { status: 200, body: found }
      },
    }),
  ]
}

function agentOf({ agent }: Session): string {
  return agent === null ? 'no agent' : `the agent ${agent}`
}
