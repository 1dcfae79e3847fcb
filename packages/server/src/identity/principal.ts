// Who calls, as far as a route has to know.
import { TENANT_SCOPES, type Scope } from './scopes.ts'

export type Principal = {
  /** The number of its tenant; null for an operator. */
  readonly tenant: number | null
  readonly scopes: ReadonlySet<Scope>
  /** The id of its key; null for a caller without one, whom only an insecure pod lets in. */
  readonly key: string | null
}

/** May do everything in this tenant. */
export function anyoneOf(tenant: number): Principal {
  return { tenant, scopes: new Set(Object.keys(TENANT_SCOPES) as Scope[]), key: null }
}

/** Reads everything on the operator's port. It creates no keys: those would outlive the insecure pod, on every pod of its
 *  database. */
export const ANY_OPERATOR: Principal = { tenant: null, scopes: new Set(['operate', 'admin:read']), key: null }
