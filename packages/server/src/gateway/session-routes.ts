// Routes for sessions: create one, list them, get one, change one. Messages: message-routes.ts.
import type { Session } from '@fleetline/protocol'
import type { z } from 'zod'
import type { Agents } from '../agent/agents.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { Tenants } from '../identity/tenants.ts'
import type { Sessions } from '../session/sessions.ts'
import { noSuchAgent } from './agent-routes.ts'
import { accessWith, openToUsers, READ, SEND, tenantOf } from './caller.ts'
import type { SessionKeys } from './session-key.ts'
import {
  newSessionSchema,
  sessionChangeSchema,
  sessionParams,
  sessionSchema,
  sessionsQuery,
  sessionsSchema,
} from './session-schemas.ts'

type Deps = SessionKeys & {
  readonly sessions: Pick<Sessions, 'create' | 'find' | 'list' | 'change'>
  readonly agents: Pick<Agents, 'has'>
  readonly tenants: Pick<Tenants, 'defaultAgent'>
}
type NewSession = z.infer<typeof newSessionSchema>

export function sessionRoutes(deps: Deps): Route[] {
  const { sessions, agents, tenants, keyOf, explainMissing } = deps
  return [
    route({
      method: 'POST',
      path: '/v1/sessions',
      summary:
        "Creates a session. With an agent, users' messages get a reply; without one, the session is a plain log. You can use the alias instead of the id. If a session with this alias and agent exists, it is returned. A user becomes the member of a session with the tenant's default agent, and may give it a title.",
      access: openToUsers('sessions:write', 'create'),
      body: newSessionSchema,
      answers: {
        200: { means: 'A session with this alias exists.', json: sessionSchema },
        201: { means: 'Created.', json: sessionSchema },
      },
      handle: async ({ principal, body }) => {
        const tenant = tenantOf(principal)
        const wanted = await wantedBy(principal, body, () => tenants.defaultAgent(tenant))
        if (wanted.agent !== null && !(await agents.has(tenant, wanted.agent)))
          throw principal?.user ? noDefaultAgent() : noSuchAgent('body.agent', wanted.agent)
        const { session, isNew } = await sessions.create(tenant, wanted)
        if (session.agent !== wanted.agent)
          throw new Rejected(
            'conflict',
            `The alias "${wanted.alias}" belongs to session ${session.session}, which has ${agentOf(session)}. Choose another alias, or use that session.`,
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
      access: READ,
      params: sessionParams,
      answers: { 200: { means: 'The session.', json: sessionSchema } },
      handle: async ({ principal, params }) => {
        const key = await keyOf(principal, params.session)
        const found = await sessions.find(key)
        if (!found) throw await explainMissing(key)
        return { status: 200, body: found }
      },
    }),
    changeRoute(deps),
  ]
}

function changeRoute({ sessions, keyOf, explainMissing }: Deps): Route {
  return route({
    method: 'PATCH',
    path: '/v1/sessions/:session',
    summary:
      'Changes the title or the metadata of a session, archives it, or un-archives it, for all its members. What is left out stays; null removes a title or the metadata. A user may change all but the metadata.',
    access: SEND,
    params: sessionParams,
    body: sessionChangeSchema,
    answers: { 200: { means: 'The session as it is now.', json: sessionSchema } },
    handle: async ({ principal, params, body }) => {
      if (principal?.user && body.metadata !== undefined)
        throw new Rejected(
          'forbidden',
          'A user may change the title and archive the session, but not change its metadata',
        )
      const key = await keyOf(principal, params.session)
      const changed = await sessions.change(key, body)
      if (!changed) throw await explainMissing(key)
      return { status: 200, body: changed }
    },
  })
}

/** A user chooses the title and nothing else: aliases, agents and members are the application's. */
async function wantedBy(
  principal: Principal | null,
  body: NewSession,
  defaultAgent: () => Promise<string | null>,
): Promise<NewSession> {
  const user = principal?.user
  if (!user) return body
  const { alias, title, metadata, agent: named, members } = body
  if (alias !== null || metadata !== null || named !== null || members.length > 0)
    throw new Rejected(
      'forbidden',
      'A user may choose the title of a session, not its alias, metadata, agent or members',
    )
  const agent = await defaultAgent()
  if (agent === null) throw noDefaultAgent()
  return { alias, title, metadata, agent, members: [user.id] }
}

export function noDefaultAgent(): Rejected {
  return new Rejected(
    'conflict',
    'No agent answers in sessions that users create. An administrator can name one: fleetline agents default NAME',
  )
}

function agentOf({ agent }: Session): string {
  return agent === null ? 'no agent' : `the agent ${agent}`
}
