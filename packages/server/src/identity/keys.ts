// API keys: creating, listing, revoking, finding. The text of a key is shown once, in the answer to whoever creates it; only its
// digest is stored (S6). Each name of a tenant has at most two live keys: the one in use and the one that replaces it. A key
// that has ended is listed for 90 days; later, the next key of its tenant deletes it.
import { Rejected } from '../errors.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import type { Actor } from './actor.ts'
import type { Audit } from './audit.ts'
import { KEY_LIMITS } from './key-limits.ts'
import { digestOf, KEY_ID, mintKey, type KeyMode } from './key-text.ts'
import { isScopeOf, OPERATOR_SCOPES, TENANT_SCOPES, USUAL_SCOPES, type Scope } from './scopes.ts'
import { noTenant, TENANT_NAME } from './tenant-name.ts'

const KEY_NAME: RegExp = /^[\w.-]{1,63}$/

export type NewKey = {
  /** The name of its tenant; undefined for a key of an operator. */
  readonly tenant?: string | undefined
  /** What uses it, such as `backend`. */
  readonly name: string
  readonly scopes?: readonly string[] | undefined
  readonly days?: number | undefined
  /** `test` changes only its text: `fl_test_…`. */
  readonly mode?: KeyMode | undefined
}
export type KeyEntry = {
  readonly id: string
  /** Null for a key of an operator. */
  readonly tenant: string | null
  readonly name: string
  readonly scopes: readonly string[]
  readonly state: 'live' | 'expired' | 'revoked'
  readonly createdAt: string
  readonly expiresAt: string
}
/** A key as a request is checked against it. */
export type StoredKey = {
  readonly id: string
  readonly tenant: number | null
  readonly digest: Uint8Array
  readonly scopes: readonly Scope[]
  readonly isRevoked: boolean
  readonly expiresAt: Date
  /** By the clock of the database; negative if it has expired. */
  readonly leftMs: number
}
/** Keys of one tenant, of operators, or, without a filter, of everybody. */
export type KeyFilter = { readonly tenant?: string | undefined; readonly operator?: boolean | undefined }
/** `key` is its text, which nobody sees again. */
export type CreatedKey = { readonly key: string; readonly entry: KeyEntry }
export type Keys = {
  create(wanted: NewKey, actor: Actor): Promise<CreatedKey>
  /** The newest first; at most a page. Throws if there is no such tenant. */
  list(of?: KeyFilter): Promise<readonly KeyEntry[]>
  /** Undefined if there is no such key. A key that is revoked again stays as it was. */
  revoke(id: string, actor: Actor): Promise<KeyEntry | undefined>
  find(id: string): Promise<StoredKey | undefined>
  /** Whether anybody can log in: with a key that has not ended, or with a token of an issuer of others. */
  hasLogin(): Promise<boolean>
}

type Deps = {
  readonly database: Transactions
  readonly random: Random
  readonly audit: Pick<Audit, 'record'>
  /** Called after a commit that ended a key. */
  readonly onRevoked: () => void
}

const PAGE = 1_000
const COLUMNS = `
  k.id, t.name as tenant, k.name, k.scopes, k.created_at, k.expires_at,
  case when k.revoked_at is not null then 'revoked' when k.expires_at <= now() then 'expired' else 'live' end as state`
const TENANT = 'select id from fleetline.tenants where name = $1 for update' // keys of one tenant are created one at a time
const HAS_TENANT = 'select from fleetline.tenants where name = $1'
const OPERATORS = `select pg_advisory_xact_lock(hashtext('fleetline.operators_keys'))` // so are those of operators
// Keys of operators have no tenant; the index has 0 for it.
const OF_OWNER = 'coalesce(tenant, 0) = coalesce($1::int, 0)'
const IS_OLD = `least(expires_at, revoked_at) < now() - interval '${KEY_LIMITS.listedDays} days'`
const FORGET = `delete from fleetline.api_keys where ${OF_OWNER} and ${IS_OLD}`
const COUNT = `
  select count(*)::int as "ofTenant", (count(*) filter (where name = $2))::int as "ofName"
    from fleetline.api_keys where ${OF_OWNER} and revoked_at is null and expires_at > now()`
const INSERT = `
  with k as (
    insert into fleetline.api_keys (id, tenant, name, digest, scopes, expires_at)
    values ($1, $2, $3, $4, $5, now() + make_interval(days => $6)) returning *)
  select ${COLUMNS} from k left join fleetline.tenants t on t.id = k.tenant`
const LIST = `
  select ${COLUMNS} from fleetline.api_keys k left join fleetline.tenants t on t.id = k.tenant
   where not ${IS_OLD} and ($1::text is null or t.name = $1) and (not $2 or k.tenant is null)
   order by k.created_at desc, k.id limit ${PAGE}`
const REVOKE =
  'update fleetline.api_keys set revoked_at = now() where id = $1 and revoked_at is null returning tenant'
const SHOW = `
  select ${COLUMNS} from fleetline.api_keys k left join fleetline.tenants t on t.id = k.tenant where k.id = $1`
const FIND = `
  select id, tenant, digest, scopes, revoked_at is not null as "isRevoked", expires_at as "expiresAt",
         extract(epoch from expires_at - now())::float8 * 1000 as "leftMs"
    from fleetline.api_keys where id = $1`

const HAS_LOGIN = `
  select exists (select from fleetline.api_keys where revoked_at is null and expires_at > now())
         or exists (select from fleetline.issuers) as "hasLogin"`

type KeyRow = Omit<KeyEntry, 'createdAt' | 'expiresAt'> & {
  readonly created_at: Date
  readonly expires_at: Date
}

export function createKeys({ database, random, audit, onRevoked }: Deps): Keys {
  return {
    create: async (wanted, actor) => {
      refuseInvalid(wanted)
      const scopes = scopesOf(wanted)
      const { id, text } = mintKey(wanted.mode ?? 'live', random)
      const insert = async (query: Query) => {
        const tenant = await lockedTenant(query, wanted.tenant)
        await query(FORGET, [tenant])
        await refuseTooMany(query, tenant, wanted.name)
        const days = wanted.days ?? KEY_LIMITS.usualDays
        const [made] = await query<KeyRow>(INSERT, [id, tenant, wanted.name, digestOf(text), scopes, days])
        await audit.record(query, { actor, action: 'key.create', tenant, target: id })
        return entryOf(made!)
      }
      const outcome = await database.transaction(insert)
      return { key: text, entry: valueOf(outcome, 'Whether the key was created is not known: list the keys') }
    },
    list: async ({ tenant, operator = false } = {}) => {
      if (tenant !== undefined && !TENANT_NAME.test(tenant)) throw noTenant(tenant)
      const read = async (query: Query) => {
        const rows = await query<KeyRow>(LIST, [tenant, operator])
        if (tenant !== undefined && rows.length === 0 && (await query(HAS_TENANT, [tenant])).length === 0)
          throw noTenant(tenant)
        return rows
      }
      const outcome = await database.transaction(read, { access: 'read' })
      return valueOf(outcome, 'The keys cannot be read').map(entryOf)
    },
    revoke: async (id, actor) => {
      if (!KEY_ID.test(id)) return undefined
      const outcome = await database.transaction(async (query) => {
        const [ended] = await query<{ tenant: number | null }>(REVOKE, [id])
        if (ended)
          await audit.record(query, { actor, action: 'key.revoke', tenant: ended.tenant, target: id })
        return query<KeyRow>(SHOW, [id])
      })
      const [row] = valueOf(outcome, 'Whether the key was revoked is not known: revoke it again')
      onRevoked()
      return row && entryOf(row)
    },
    find: async (id) => {
      const outcome = await database.transaction((query) => query<StoredKey>(FIND, [id]), { access: 'read' })
      return valueOf(outcome, 'The key cannot be read')[0]
    },
    hasLogin: async () => {
      const outcome = await database.transaction((query) => query<{ hasLogin: boolean }>(HAS_LOGIN), {
        access: 'read',
      })
      return valueOf(outcome, 'The keys cannot be read')[0]!.hasLogin
    },
  }
}

function refuseInvalid({ name, days = KEY_LIMITS.usualDays }: NewKey): void {
  if (!KEY_NAME.test(name))
    throw new Rejected('invalid', 'name: use 1 to 63 letters, digits, dots, dashes and underscores')
  if (!Number.isInteger(days) || days < 1 || days > KEY_LIMITS.days)
    throw new Rejected('invalid', `days: use a whole number from 1 to ${KEY_LIMITS.days}`)
}

/** The scopes of a new key, or the reason why it cannot have them. */
function scopesOf({ tenant, scopes }: NewKey): readonly string[] {
  const owner = tenant === undefined ? 'operator' : 'tenant'
  const wanted = [...new Set(scopes ?? USUAL_SCOPES[owner])]
  const wrong = wanted.find((scope) => !isScopeOf(owner, scope))
  if (wrong !== undefined || wanted.length === 0) {
    const allowed = Object.keys(owner === 'tenant' ? TENANT_SCOPES : OPERATOR_SCOPES).join(', ')
    const fault = wrong === undefined ? 'name at least one' : `${wrong} is not one`
    throw new Rejected('invalid', `scopes: ${fault}. A key of ${OWNERS[owner]} may have: ${allowed}`)
  }
  return owner === 'operator' ? [...new Set(['operate', ...wanted])] : wanted
}
const OWNERS = { tenant: 'a tenant', operator: 'an operator' }

async function lockedTenant(query: Query, name: string | undefined): Promise<number | null> {
  if (name === undefined) {
    await query(OPERATORS)
    return null
  }
  const [row] = TENANT_NAME.test(name) ? await query<{ id: number }>(TENANT, [name]) : []
  if (!row)
    throw new Rejected('not_found', `There is no tenant ${name}: create it with fleetline tenants create`)
  return row.id
}

async function refuseTooMany(query: Query, tenant: number | null, name: string): Promise<void> {
  const [row] = await query<{ ofTenant: number; ofName: number }>(COUNT, [tenant, name])
  const { ofTenant, ofName } = row!
  if (ofName >= KEY_LIMITS.ofOneName)
    throw new Rejected(
      'too_many',
      `There are ${ofName} live keys named ${name}: revoke the old one, or choose another name`,
    )
  if (ofTenant >= KEY_LIMITS.ofOneTenant)
    throw new Rejected('too_many', `There are ${ofTenant} live keys: revoke those that nobody uses`)
}

function entryOf({ created_at: created, expires_at: expires, ...rest }: KeyRow): KeyEntry {
  return { ...rest, createdAt: created.toISOString(), expiresAt: expires.toISOString() }
}
