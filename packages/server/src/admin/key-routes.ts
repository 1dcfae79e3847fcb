// Routes for tenants and their keys. Whoever may create keys may do anything: it can create one with every scope.
import { route, type Route } from '../door/route.ts'
import { Rejected } from '../errors.ts'
import { actorOf } from '../identity/actor.ts'
import { KEY_LIMITS } from '../identity/key-limits.ts'
import type { Keys } from '../identity/keys.ts'
import type { Tenants } from '../identity/tenants.ts'
import { READ, WRITE } from './access.ts'
import {
  createdKeySchema,
  keyParams,
  keySchema,
  keysQuery,
  keysSchema,
  newKeySchema,
  newTenantSchema,
  tenantSchema,
  tenantsQuery,
  tenantsSchema,
} from './key-schemas.ts'

type Deps = {
  readonly tenants: Pick<Tenants, 'create' | 'list'>
  readonly keys: Pick<Keys, 'create' | 'list' | 'revoke'>
}

export function keyRoutes(deps: Deps): Route[] {
  return [...tenantRoutes(deps), ...changeRoutes(deps), listRoute(deps)]
}

function tenantRoutes({ tenants }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/tenants',
      summary: 'Creates a tenant. Nobody sees data of another tenant.',
      access: WRITE,
      body: newTenantSchema,
      answers: {
        200: { means: 'There is a tenant with this name.', json: tenantSchema },
        201: { means: 'Created.', json: tenantSchema },
      },
      handle: async ({ principal, address, body: { name } }) => {
        const { isNew, ...tenant } = await tenants.create(name, actorOf(principal, address))
        return { status: isNew ? 201 : 200, body: tenant }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/tenants',
      summary: 'Lists the tenants, in the order of their names.',
      access: READ,
      query: tenantsQuery,
      answers: { 200: { means: 'At most 1000 tenants.', json: tenantsSchema } },
      handle: async ({ query: { after } }) => ({ status: 200, body: { tenants: await tenants.list(after) } }),
    }),
  ]
}

function changeRoutes({ keys }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/keys',
      summary: `Creates an API key. Only this answer shows it. A name has at most ${KEY_LIMITS.ofOneName} live keys: the one in use and its successor.`,
      access: WRITE,
      body: newKeySchema,
      answers: { 201: { means: 'Created.', json: createdKeySchema } },
      handle: async ({ principal, address, body }) => {
        const { key, entry } = await keys.create(body, actorOf(principal, address))
        return { status: 201, body: { key, ...entry } }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/keys/:key/revoke',
      summary:
        'Revokes a key. Every pod rejects it and ends its streams within 5 seconds, even if hints are lost.',
      access: WRITE,
      params: keyParams,
      answers: { 200: { means: 'The key is revoked, now or before.', json: keySchema } },
      handle: async ({ principal, address, params }) => {
        const revoked = await keys.revoke(params.key, actorOf(principal, address))
        if (!revoked) throw new Rejected('not_found', 'There is no such key.')
        return { status: 200, body: revoked }
      },
    }),
  ]
}

function listRoute({ keys }: Deps): Route {
  return route({
    method: 'GET',
    path: '/v1/keys',
    summary: `Lists keys, the newest first: of one tenant, of operators, or of everybody. A key that has ended is listed for ${KEY_LIMITS.listedDays} days.`,
    access: READ,
    query: keysQuery,
    answers: { 200: { means: 'At most 1000 keys.', json: keysSchema } },
    handle: async ({ query: { tenant, operator } }) => {
      const found = await keys.list({ tenant, operator: operator === 'true' })
      return { status: 200, body: { keys: found } }
    },
  })
}
