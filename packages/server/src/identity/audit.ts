// The audit log: who did what, when and from where. Guarantees:
//   S32  a change and its row are written in one transaction: both exist, or neither. A change that changed nothing has no row.
// Rows are never changed, and are deleted when they are `auditDays` old (`duties.ts`). Ids have gaps, because a transaction that
// is rolled back uses one up. No row contains a key, a token or a secret: a row names things by id or name.
import { Rejected } from '../errors.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Actor } from './actor.ts'
import { AUDIT_ACTIONS, AUDIT_LIMITS, type AuditAction } from './audit-actions.ts'
import { noTenant, TENANT_NAME } from './tenant-name.ts'

/** A change that is about to be committed. */
export type Change = {
  readonly actor: Actor
  readonly action: Exclude<AuditAction, 'request'>
  /** Whose data it concerns; null for what belongs to operators. */
  readonly tenant: number | null
  /** The id or the name of what was changed. Of `tenant.change` it is the new default agent, or null for none; of `retention.set` the rule,
   *  with its days before and after. */
  readonly target: string | null
}
/** Equal requests that were refused. */
export type RefusedRow = Actor & {
  readonly tenant: number | null
  readonly target: string | null
  readonly reason: string | null
  readonly times: number
}
export type AuditEntry = {
  readonly id: number
  readonly at: string
  /** Its name; null for operators, or if nobody knows. */
  readonly tenant: string | null
  readonly actor: string
  readonly via: string | null
  readonly address: string | null
  readonly action: string
  readonly target: string | null
  readonly outcome: 'done' | 'refused'
  readonly reason: string | null
  readonly times: number
}
export type AuditFilter = {
  readonly tenant?: string | undefined
  /** Exactly, such as `key 3cPx0mZqL7aB`. */
  readonly actor?: string | undefined
  readonly action?: string | undefined
  /** Only rows that are older than the one with this id. */
  readonly before?: number | undefined
  /** From 1 to 1000; by default 100. */
  readonly limit?: number | undefined
}
export type Audit = {
  /** Writes the row in the transaction of `query`. Resolves to the row's time, by the clock of the database. */
  record(query: Query, change: Change): Promise<Date>
  recordRefused(rows: readonly RefusedRow[]): Promise<void>
  /** Newest first. Throws if there is no such tenant. */
  list(filter?: AuditFilter): Promise<readonly AuditEntry[]>
}
type Deps = { readonly database: Transactions; readonly metrics: Metrics }

const REFUSED_MS = 1_000 // a pod that stops waits for it

// Who has logged in is a fact of the database, so a command cannot claim to be another role.
const RECORD = `
  insert into fleetline.audit (actor, via, address, action, tenant, target, outcome)
  values (case $1::text when 'command' then 'command ' || session_user else $1 end, $2, $3, $4, $5, $6, 'done')
  returning at`
const RECORD_REFUSED = `
  insert into fleetline.audit (actor, via, address, tenant, target, reason, times, action, outcome)
  select r.*, 'request', 'refused'
    from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::int[]) r`
const TENANT = 'select id from fleetline.tenants where name = $1'
// Each filter has an index that ends with the id. A range instead of an equality makes PostgreSQL read in its order: with an equality
// it may walk through all rows by their id, in search of a few.
const listBy = (column: 'tenant' | 'actor' | 'action' | undefined, value: string) => `
  select a.id::float8 as id, a.at, t.name as tenant, a.actor, a.via, a.address, a.action, a.target, a.outcome, a.reason, a.times
    from fleetline.audit a left join fleetline.tenants t on t.id = a.tenant
   where ($1::int is null or a.tenant = $1) and ($2::text is null or a.actor = $2) and ($3::text is null or a.action = $3)
     and ($4::bigint is null or a.id < $4) ${column ? `and a.${column} between ${value} and ${value}` : ''}
   order by ${column ? `a.${column} desc, ` : ''}a.id desc limit $5`
const LISTS = {
  actor: listBy('actor', '$2'),
  tenant: listBy('tenant', '$1'),
  action: listBy('action', '$3'),
  all: listBy(undefined, ''),
}

type AuditRow = Omit<AuditEntry, 'at'> & { readonly at: Date }

export function createAudit({ database, metrics }: Deps): Audit {
  return {
    record: async (query, { actor: { name, via, address }, action, tenant, target }) => {
      const [row] = await query<{ at: Date }>(RECORD, [name, via, address, action, tenant, target])
      metrics.count('auditRows', { outcome: 'done' })
      return row!.at
    },
    recordRefused: async (rows) => {
      const columns = columnsOf(rows, 'name', 'via', 'address', 'tenant', 'target', 'reason', 'times')
      const outcome = await database.transaction((query) => query(RECORD_REFUSED, columns), {
        deadlineMs: REFUSED_MS,
      })
      valueOf(outcome, 'Refused requests could not be recorded')
      metrics.count('auditRows', { outcome: 'refused' }, rows.length)
    },
    list: async (filter = {}) => {
      const { tenant, actor, action, before, limit = AUDIT_LIMITS.usualRows } = filter
      refuseOutside('limit', limit, AUDIT_LIMITS.rows)
      refuseOutside('before', before, Number.MAX_SAFE_INTEGER)
      if (tenant !== undefined && !TENANT_NAME.test(tenant)) throw noTenant(tenant)
      if (!canMatch(filter)) return []
      const read = async (query: Query) => {
        const [owner] = tenant === undefined ? [] : await query<{ id: number }>(TENANT, [tenant])
        if (tenant !== undefined && !owner) throw noTenant(tenant)
        return query<AuditRow>(listFor(filter), [owner?.id, actor, action, before, limit])
      }
      const outcome = await database.transaction(read, { access: 'read' })
      return valueOf(outcome, 'The audit log cannot be read').map(entryOf)
    },
  }
}

/** By the filter that leaves the fewest rows. */
function listFor({ actor, tenant, action }: AuditFilter): string {
  if (actor !== undefined) return LISTS.actor
  if (tenant !== undefined) return LISTS.tenant
  return action === undefined ? LISTS.all : LISTS.action
}

function refuseOutside(field: string, value: number | undefined, max: number): void {
  if (value !== undefined && !(Number.isInteger(value) && value >= 1 && value <= max))
    throw new Rejected('invalid', `${field}: use a whole number from 1 to ${max}`)
}

/** False for text that no row has. PostgreSQL would reject some of it, such as U+0000. */
function canMatch({ actor = '', action }: AuditFilter): boolean {
  const isKnown = action === undefined || AUDIT_ACTIONS.some((known) => known === action)
  return isKnown && !/\p{Cc}/u.test(actor)
}

function entryOf({ id, at, ...rest }: AuditRow): AuditEntry {
  return { id, at: at.toISOString(), ...rest }
}
