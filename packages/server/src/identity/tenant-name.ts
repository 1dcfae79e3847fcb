// What a tenant may be called.
import { Rejected } from '../errors.ts'

export const TENANT_NAME: RegExp = /^[a-z0-9][a-z0-9-]{0,62}$/

export const TENANT_RULE = '1 to 63 lower-case letters, digits and dashes, no dash first'

/** What lists say about a tenant that does not exist. An empty list would look as if the tenant had nothing. */
export function noTenant(name: string): Rejected {
  return new Rejected('not_found', `There is no tenant ${name}: list them with fleetline tenants ls`)
}
