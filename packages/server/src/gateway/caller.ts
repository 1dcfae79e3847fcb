// What a route of the port for applications declares and asks of its caller.
import { Bug } from '../errors.ts'
import type { Principal } from '../identity/principal.ts'
import type { Right, TenantScope } from '../identity/scopes.ts'

/** Who asks, and which part of the request an error names. */
export type Asker = { readonly principal: Principal | null; readonly part: 'body' | 'query' | 'frame' }
export type AskerIn = Asker & {
  /** An id or an alias. */
  readonly session: string
}

export function accessWith<Needed extends TenantScope>(scope: Needed) {
  return { audience: 'key', tenant: 'caller', scope } as const
}

/** For keys with the scope, and for users whose token has the right. */
export function openToUsers<Needed extends TenantScope>(scope: Needed, right: Right) {
  return { audience: 'client', tenant: 'caller', scope, right } as const
}

/** The number of the caller's tenant. */
export function tenantOf(principal: Principal | null): number {
  if (principal?.tenant == null) throw new Bug('A route that needs a tenant has none')
  return principal.tenant
}

// The access that callers need for requests that exist both as routes and as commands of a socket.
export const READ = openToUsers('sessions:read', 'read')
export const SEND = openToUsers('sessions:write', 'send')
export const STOP = openToUsers('sessions:write', 'stop')
export const MARK_READ = openToUsers('sessions:write', 'read')
