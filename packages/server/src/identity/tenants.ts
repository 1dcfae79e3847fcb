// Tenants. Rows are keyed by the number of a tenant; people use its name. A number never changes, so it is kept after the first
// read.
import { Bug, Rejected } from '../errors.ts'
import { valueOf, type Transactions } from '../store/database.ts'

/** The tenant of a pod's own methods, and of callers without a key on `fleetline dev`. */
export const DEV_TENANT = 'dev'

export const TENANT_NAME: RegExp = /^[a-z0-9][a-z0-9-]{0,62}$/

export const TENANT_RULE = '1 to 63 lower-case letters, digits and dashes, no dash first'

export type Tenant = { readonly name: string; readonly createdAt: string }

export type Tenants = {
  numberOf(name: string): Promise<number>
  /** Creates a tenant, or returns the one with this name. */
  create(name: string): Promise<Tenant & { readonly isNew: boolean }>
  /** In the order of their names, after `after`; at most a page. */
  list(after?: string): Promise<readonly Tenant[]>
}

const PAGE = 1_000

const NUMBER = 'select id from fleetline.tenants where name = $1'

const CREATE = 'insert into fleetline.tenants (name) values ($1) on conflict (name) do nothing returning id'
const FIND = 'select name, created_at from fleetline.tenants where name = $1'

const LIST = `select name, created_at from fleetline.tenants where name > $1 order by name limit ${PAGE}`

type TenantRow = { readonly name: string; readonly created_at: Date }

export function createTenants({ database }: { readonly database: Transactions }): Tenants {
  const known = new Map<string, number>()
  return {
    numberOf: async (name) => {
      const kept = known.get(name)
      if (kept !== undefined) return kept
      const outcome = await database.transaction((query) => query<{ id: number }>(NUMBER, [name]), {
        access: 'read',
      })
      const [row] = valueOf(outcome, 'The tenant cannot be read')
      if (!row) throw new Bug(`There is no tenant ${name}`)
      known.set(name, row.id)
      return row.id
    },
    create: async (name) => {
      if (!TENANT_NAME.test(name)) throw new Rejected('invalid', `name: use ${TENANT_RULE}`)
      const outcome = await database.transaction(async (query) => {
        const made = await query(CREATE, [name])
        const [row] = await query<TenantRow>(FIND, [name]) // its own statement, to see a row that somebody else has just created
        return { ...tenantOf(row!), isNew: made.length > 0 }
      })
      return valueOf(outcome, 'Whether the tenant was created is not known: create it again')
    },
    list: async (after = '') => {
      if (after !== '' && !TENANT_NAME.test(after)) return []
      const outcome = await database.transaction((query) => query<TenantRow>(LIST, [after]), {
        access: 'read',
      })
      return valueOf(outcome, 'The tenants cannot be read').map(tenantOf)
    },
  }
}

function tenantOf({ name, created_at: at }: TenantRow): Tenant {
  return { name, createdAt: at.toISOString() }
}
