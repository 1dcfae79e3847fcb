// Who calls, as far as a route has to know.
import { TENANT_SCOPES, type Right, type Scope } from './scopes.ts'

export type Principal = {
  /** The number of its tenant; null for an operator. */
  readonly tenant: number | null
  /** Empty for a user. */
  readonly scopes: ReadonlySet<Scope>
  /** The id of its key, or of the key that minted its token; null without one. */
  readonly key: string | null
  /** Set if a user calls, with a token. */
  readonly user?: TokenUser
}

/** The user of a token. */
export type TokenUser = {
  readonly id: string
  readonly rights: ReadonlySet<Right>
  /** The UUIDs of the sessions that the token names; undefined if it names none. In both cases the user must be a member. */
  readonly sessions: ReadonlySet<string> | undefined
  /** When the token was issued, and when it expires, in milliseconds since 1970. */
  readonly issuedMs: number
  readonly endMs: number
  /** Its issuer, if others have issued the token. */
  readonly issuer?: { readonly id: number; readonly name: string }
}

/** May do everything in this tenant. */
export function anyoneOf(tenant: number): Principal {
  return { tenant, scopes: new Set(Object.keys(TENANT_SCOPES) as Scope[]), key: null }
}

/** Reads everything on the operator's port, and drains pods. It creates no keys: those would outlive the insecure pod, on every pod of its
 *  database. */
export const ANY_OPERATOR: Principal = {
  tenant: null,
  scopes: new Set(['operate', 'admin:read', 'pods:write']),
  key: null,
}
