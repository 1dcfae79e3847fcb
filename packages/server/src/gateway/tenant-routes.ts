// Routes for the caller's own tenant: show it, change it.
import type { Agents } from '../agent/agents.ts'
import { route, type Route } from '../door/route.ts'
import { actorOf } from '../identity/actor.ts'
import type { Tenants } from '../identity/tenants.ts'
import { noSuchAgent } from './agent-routes.ts'
import { accessWith, tenantOf } from './caller.ts'
import { ownTenantSchema, tenantChangeSchema } from './tenant-schemas.ts'

type Deps = {
  readonly agents: Pick<Agents, 'has'>
  readonly tenants: Pick<Tenants, 'nameOf' | 'defaultAgent' | 'setDefaultAgent'>
}

export function tenantRoutes({ agents, tenants }: Deps): Route[] {
  const own = async (tenant: number) => {
    const [name, defaultAgent] = await Promise.all([tenants.nameOf(tenant), tenants.defaultAgent(tenant)])
    return { status: 200, body: { name, defaultAgent } }
  }
  return [
    route({
      method: 'GET',
      path: '/v1/tenant',
      summary: 'Shows the tenant of the key: its name, and the agent of sessions that users create.',
      access: accessWith('agents:read'),
      answers: { 200: { means: 'The tenant.', json: ownTenantSchema } },
      handle: async ({ principal }) => own(tenantOf(principal)),
    }),
    route({
      method: 'PATCH',
      path: '/v1/tenant',
      summary:
        'Changes the tenant of the key. `defaultAgent` answers in sessions that users create; without one (null), users cannot create sessions. Existing sessions keep their agent.',
      access: accessWith('agents:write'),
      body: tenantChangeSchema,
      answers: { 200: { means: 'Changed.', json: ownTenantSchema } },
      handle: async ({ principal, address, body: { defaultAgent } }) => {
        const tenant = tenantOf(principal)
        if (defaultAgent !== null && !(await agents.has(tenant, defaultAgent)))
          throw noSuchAgent('body.defaultAgent', defaultAgent)
        await tenants.setDefaultAgent(tenant, defaultAgent, actorOf(principal, address))
        return own(tenant)
      },
    }),
  ]
}
