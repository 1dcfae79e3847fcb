// Tenants. Rows are keyed by the number of a tenant; people use its name. A number never changes, so it is kept after the first
// read.
import { Bug, Rejected } from '../errors.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { Actor } from './actor.ts'
import type { Audit } from './audit.ts'
import { TENANT_NAME, TENANT_RULE } from './tenant-name.ts'

/** The tenant of a pod's own methods, and of callers without a key on `fleetline dev`. */
export const DEV_TENANT = 'dev'

export type Tenant = { readonly name: string; readonly createdAt: string }

export type Tenants = {
  /** Throws if there is no such tenant. */
  numberOf(name: string): Promise<number>
  find(name: string): Promise<number | undefined>
  nameOf(number: number): Promise<string>
  /** Answers in sessions that users create. Null: they cannot create any. */
  defaultAgent(number: number): Promise<string | null>
  setDefaultAgent(number: number, agent: string | null, actor: Actor): Promise<void>
  /** Creates a tenant, or returns the one with this name. */
  create(name: string, actor: Actor): Promise<Tenant & { readonly isNew: boolean }>
  /** In the order of their names, after `after`; at most a page. */
  list(after?: string): Promise<readonly Tenant[]>
}

type Deps = { readonly database: Transactions; readonly audit: Pick<Audit, 'record'> }

const PAGE = 1_000

const NUMBER = 'select id from fleetline.tenants where name = $1'
const NAME = 'select name from fleetline.tenants where id = $1'
const AGENT = 'select default_agent as agent from fleetline.tenants where id = $1'
const SET_AGENT = `
  update fleetline.tenants set default_agent = $2 where id = $1 and default_agent is distinct from $2 returning id`

const CREATE = 'insert into fleetline.tenants (name) values ($1) on conflict (name) do nothing returning id'
const FIND = 'select name, created_at from fleetline.tenants where name = $1'

const LIST = `select name, created_at from fleetline.tenants where name > $1 order by name limit ${PAGE}`

type TenantRow = { readonly name: string; readonly created_at: Date }

export function createTenants({ database, audit }: Deps): Tenants {
  const [known, names] = [new Map<string, number>(), new Map<number, string>()]
  const read = async <Row extends object>(sql: string, values: readonly unknown[]) => {
    const outcome = await database.transaction((query) => query<Row>(sql, values), { access: 'read' })
    return valueOf(outcome, 'The tenant cannot be read')[0]
  }
  const find = async (name: string) => {
    const kept = known.get(name)
    if (kept !== undefined || !TENANT_NAME.test(name)) return kept
    const number = (await read<{ id: number }>(NUMBER, [name]))?.id
    if (number !== undefined) known.set(name, number)
    return number
  }
  return {
    find,
    numberOf: async (name) => {
      const number = await find(name)
      if (number === undefined) throw new Bug(`There is no tenant ${name}`)
      return number
    },
    nameOf: async (number) => {
      const name = names.get(number) ?? (await read<{ name: string }>(NAME, [number]))?.name
      if (name === undefined) throw new Bug(`There is no tenant ${number}`)
      names.set(number, name)
      return name
    },
    defaultAgent: async (number) => (await read<{ agent: string | null }>(AGENT, [number]))?.agent ?? null,
    setDefaultAgent: async (tenant, agent, actor) => {
      const outcome = await database.transaction(async (query) => {
        const [changed] = await query(SET_AGENT, [tenant, agent])
        if (changed) await audit.record(query, { actor, action: 'tenant.change', tenant, target: agent })
      })
      valueOf(outcome, 'Whether the tenant was changed is not known: change it again')
    },
    create: async (name, actor) => {
      if (!TENANT_NAME.test(name)) throw new Rejected('invalid', `name: use ${TENANT_RULE}`)
      const outcome = await database.transaction(async (query) => {
        const [made] = await query<{ id: number }>(CREATE, [name])
        if (made) await audit.record(query, { actor, action: 'tenant.create', tenant: made.id, target: name })
        const [row] = await query<TenantRow>(FIND, [name]) // its own statement, to see a row that somebody else has just created
        return { ...tenantOf(row!), isNew: made !== undefined }
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
