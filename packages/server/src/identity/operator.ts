// Tenants, keys, issuers and the audit log, for one actor: the program that has the pod in its process, or a command with access
// to the database.
import { pick } from '../lib/pick.ts'
import type { Actor } from './actor.ts'
import type { Audit } from './audit.ts'
import type { AddedIssuer, Issuers, NewIssuer } from './issuers.ts'
import type { CreatedKey, KeyEntry, Keys, NewKey } from './keys.ts'
import type { Tenant, Tenants } from './tenants.ts'

export type OperatorMethods = {
  readonly tenants: Pick<Tenants, 'list'> & {
    /** Creates a tenant, or returns the one with this name. */
    create(name: string): Promise<Tenant & { readonly isNew: boolean }>
  }
  readonly keys: Pick<Keys, 'list'> & {
    create(wanted: NewKey): Promise<CreatedKey>
    /** Undefined if there is no such key. A key that is revoked again stays as it was. */
    revoke(id: string): Promise<KeyEntry | undefined>
  }
  readonly issuers: Pick<Issuers, 'list'> & {
    /** Adding the same issuer again changes nothing. */
    add(wanted: NewIssuer): Promise<AddedIssuer>
    /** False if there was no such issuer. */
    remove(name: string): Promise<boolean>
  }
  readonly audit: Pick<Audit, 'list'>
}
type Deps = {
  readonly tenants: Tenants
  readonly keys: Keys
  readonly issuers: Issuers
  readonly audit: Audit
}

export function operatorFor(actor: Actor, { tenants, keys, issuers, audit }: Deps): OperatorMethods {
  return {
    tenants: { ...pick(tenants, 'list'), create: (name) => tenants.create(name, actor) },
    keys: {
      ...pick(keys, 'list'),
      create: (wanted) => keys.create(wanted, actor),
      revoke: (id) => keys.revoke(id, actor),
    },
    issuers: {
      ...pick(issuers, 'list'),
      add: (wanted) => issuers.add(wanted, actor),
      remove: (name) => issuers.remove(name, actor),
    },
    audit: pick(audit, 'list'),
  }
}
