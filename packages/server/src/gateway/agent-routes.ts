// Routes for agents behind URLs. An agent of another tenant gets the same answer as one that does not exist.
import type { Agents } from '../agent/agents.ts'
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import { actorOf } from '../identity/actor.ts'
import {
  addedSchema,
  agentChangeSchema,
  agentParams,
  agentSchema,
  agentsSchema,
  newAgentSchema,
} from './agent-schemas.ts'
import { accessWith, tenantOf } from './caller.ts'

type Deps = {
  readonly agents: Pick<Agents, 'add' | 'list' | 'find' | 'change' | 'remove'>
}

export function agentRoutes(deps: Deps): Route[] {
  return [addRoute(deps), ...readRoutes(deps), changeRoute(deps), removeRoute(deps)]
}

function addRoute({ agents }: Deps): Route {
  return route({
    method: 'POST',
    path: '/v1/agents',
    summary:
      'Adds an agent behind a URL. Pods call it with a signed POST (Standard Webhooks); the secret is shown only in this response. Adding the same agent again changes nothing; the same name with another URL, secret, downstream or setting is a conflict.',
    access: accessWith('agents:write'),
    body: newAgentSchema,
    answers: {
      200: { means: 'This agent exists already.', json: addedSchema },
      201: { means: 'Added.', json: addedSchema },
    },
    handle: async ({ principal, address, body }) => {
      const { agent, secret } = await agents.add(tenantOf(principal), body, actorOf(principal, address))
      return secret === undefined ? { status: 200, body: agent } : { status: 201, body: { ...agent, secret } }
    },
  })
}

function readRoutes({ agents }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/agents',
      summary: 'Lists the agents behind URLs, by name.',
      access: accessWith('agents:read'),
      answers: { 200: { means: 'All agents behind URLs.', json: agentsSchema } },
      handle: async ({ principal }) => {
        return { status: 200, body: { agents: await agents.list(tenantOf(principal)) } }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/agents/:agent',
      summary: 'Shows an agent.',
      access: accessWith('agents:read'),
      params: agentParams,
      answers: { 200: { means: 'The agent.', json: agentSchema } },
      handle: async ({ principal, params }) => {
        const found = await agents.find(tenantOf(principal), params.agent)
        if (!found) throw notFound()
        return { status: 200, body: found }
      },
    }),
  ]
}

function changeRoute({ agents }: Deps): Route {
  return route({
    method: 'PATCH',
    path: '/v1/agents/:agent',
    summary:
      'Changes an agent behind a URL: its URL, secret, downstream or settings. What is left out stays. The change holds from the next call of the agent on.',
    access: accessWith('agents:write'),
    params: agentParams,
    body: agentChangeSchema,
    answers: { 200: { means: 'Changed.', json: agentSchema } },
    handle: async ({ principal, address, params, body }) => {
      const actor = actorOf(principal, address)
      const changed = await agents.change(tenantOf(principal), params.agent, body, actor)
      if (!changed) throw notFound()
      return { status: 200, body: changed }
    },
  })
}

function removeRoute({ agents }: Deps): Route {
  return route({
    method: 'DELETE',
    path: '/v1/agents/:agent',
    summary:
      'Removes an agent. Its sessions stay. Their turns wait until an agent of that name is added, and fail after 15 minutes.',
    access: accessWith('agents:write'),
    params: agentParams,
    answers: { 200: { means: 'Removed.', json: agentParams } },
    handle: async ({ principal, address, params }) => {
      const actor = actorOf(principal, address)
      if (!(await agents.remove(tenantOf(principal), params.agent, actor))) throw notFound()
      return { status: 200, body: { agent: params.agent } }
    },
  })
}

/** For a field that names an agent which nobody has. */
export function noSuchAgent(field: string, name: string): Rejected {
  return new Rejected(
    'invalid',
    `${field}: there is no agent ${name}. Start a pod whose app exports this agent, or add its URL: fleetline agents add ${name} URL`,
  )
}

function notFound(): Rejected {
  return new Rejected('not_found', 'There is no such agent, or it is not yours.')
}
