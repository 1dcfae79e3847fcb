// Finds the tenant of an application's request.
import type { RouteAccess, Principal } from '../door/route.ts'
import { Bug } from '../errors.ts'
import type { Tenants } from '../identity/tenants.ts'

export const CALLER_ACCESS = { audience: 'key', tenant: 'caller' } as const satisfies RouteAccess

/** The number of the caller's tenant. */
export type TenantOf = (principal: Principal | null) => Promise<number>

export function createTenantOf({ tenants }: { readonly tenants: Tenants }): TenantOf {
  return async (principal) => {
    if (!principal) throw new Bug('A route that needs a tenant has none')
    return tenants.numberOf(principal.tenant)
  }
}
