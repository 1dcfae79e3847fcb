// Issuers of others (Auth0, Clerk, Supabase, your own): adding, listing, removing. An operator configures each one and binds it to
// one tenant. Nothing in a token picks a tenant or a URL. A pod uses what it has read about issuers for at most 2.5 s (S9).
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import type { Actor } from './actor.ts'
import type { Audit } from './audit.ts'
import { ISSUER_ALGORITHMS, ISSUER_LIMITS } from './issuer-limits.ts'
import { createRecent } from './recent.ts'
import { TENANT_NAME } from './tenant-name.ts'
import { TOKEN_ISSUER } from './tokens.ts'

type Issuer = {
  /** What people call it, such as `auth0`. */
  readonly name: string
  readonly tenant: string
  /** The claim `iss` of its tokens, and their claim `aud`. */
  readonly issuer: string
  readonly audience: string
  /** Where its public keys are. By default `.well-known/jwks.json` below the issuer. */
  readonly jwksUrl: string
  /** Some of EdDSA, ES256, RS256; by default all. */
  readonly algorithms: readonly string[]
  /** Tokens that were issued longer ago are rejected; by default 900. */
  readonly maxAgeSeconds: number
}
type Usual = 'jwksUrl' | 'algorithms' | 'maxAgeSeconds'
export type NewIssuer = Omit<Issuer, Usual> & { readonly [Key in Usual]?: Issuer[Key] | undefined }
export type IssuerEntry = Issuer & { readonly createdAt: string }
/** An issuer as a token is checked against it. */
export type StoredIssuer = Omit<IssuerEntry, 'tenant' | 'createdAt'> & {
  readonly id: number
  readonly tenant: number
}
export type AddedIssuer = IssuerEntry & { readonly isNew: boolean }
export type Issuers = {
  /** Adding the same issuer again changes nothing. */
  add(wanted: NewIssuer, actor: Actor): Promise<AddedIssuer>
  /** In the order of their names. */
  list(): Promise<readonly IssuerEntry[]>
  /** False if there was no such issuer. */
  remove(name: string, actor: Actor): Promise<boolean>
  /** All of them, at most 2.5 s old. */
  recent(): Promise<ReadonlyMap<number, StoredIssuer>>
  /** Reads again when it is asked next. */
  forget(): void
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly audit: Pick<Audit, 'record'>
  /** Called after a commit that changed something. */
  readonly onChange: () => void
}

const NAME: RegExp = /^[\w.-]{1,63}$/
const LOOPBACK: RegExp = /^(?:localhost|127\.0\.0\.1|\[::1\])$/

const COLUMNS = `
  i.name, t.name as tenant, i.issuer, i.audience, i.jwks_url as "jwksUrl", i.algorithms,
  i.max_age_seconds as "maxAgeSeconds", i.created_at as "createdAt"`
const LIST = `select ${COLUMNS} from fleetline.issuers i join fleetline.tenants t on t.id = i.tenant order by i.name`
const ALL = `
  select id, name, tenant, issuer, audience, jwks_url as "jwksUrl", algorithms, max_age_seconds as "maxAgeSeconds"
    from fleetline.issuers`
const TENANT = 'select id from fleetline.tenants where name = $1'
const COUNT = 'select count(*)::int as count from fleetline.issuers'
const INSERT = `
  insert into fleetline.issuers (name, tenant, issuer, audience, jwks_url, algorithms, max_age_seconds)
  values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning id`
// Its own statement, to see a row that somebody else has just inserted.
const TAKEN = `
  select ${COLUMNS} from fleetline.issuers i join fleetline.tenants t on t.id = i.tenant
   where i.name = $1 or (i.issuer = $2 and i.audience = $3) order by i.name <> $1`
const REMOVE = 'delete from fleetline.issuers where name = $1 returning tenant'

type Row = Omit<IssuerEntry, 'createdAt'> & { readonly createdAt: Date }

export function createIssuers({ database, clock, audit, onChange }: Deps): Issuers {
  const readAll = async () => {
    const outcome = await database.transaction((query) => query<StoredIssuer>(ALL), { access: 'read' })
    return new Map(valueOf(outcome, 'The issuers cannot be read').map((row) => [row.id, row]))
  }
  const recent = createRecent(readAll, clock)
  return {
    add: async (wanted, actor) => {
      const full = checked(wanted)
      const outcome = await database.transaction(async (query) => {
        const { owner, ...added } = await insert(query, full)
        if (added.isNew)
          await audit.record(query, { actor, action: 'issuer.add', tenant: owner, target: full.name })
        return added
      })
      const added = valueOf(outcome, 'Whether the issuer was added is not known: add it again')
      if (added.isNew) onChange()
      return added
    },
    list: async () => {
      const outcome = await database.transaction((query) => query<Row>(LIST), { access: 'read' })
      return valueOf(outcome, 'The issuers cannot be read').map(entryOf)
    },
    remove: async (name, actor) => {
      const outcome = await database.transaction(async (query) => {
        const [removed] = await query<{ tenant: number }>(REMOVE, [name])
        if (removed)
          await audit.record(query, { actor, action: 'issuer.remove', tenant: removed.tenant, target: name })
        return removed !== undefined
      })
      const isRemoved = valueOf(outcome, 'Whether the issuer was removed is not known: remove it again')
      onChange()
      return isRemoved
    },
    recent: () => recent.get(),
    forget: () => recent.forget(),
  }
}

async function insert(query: Query, full: Issuer): Promise<AddedIssuer & { readonly owner: number }> {
  const { name, tenant, issuer, audience, jwksUrl, algorithms, maxAgeSeconds } = full
  const [owner] = await query<{ id: number }>(TENANT, [tenant])
  if (!owner)
    throw new Rejected('not_found', `There is no tenant ${tenant}: create it with fleetline tenants create`)
  const [{ count }] = (await query<{ count: number }>(COUNT)) as [{ count: number }]
  if (count >= ISSUER_LIMITS.issuers)
    throw new Rejected('too_many', `There are ${count} issuers: remove those that nobody uses`)
  const made = await query(INSERT, [name, owner.id, issuer, audience, jwksUrl, algorithms, maxAgeSeconds])
  const [row] = await query<Row>(TAKEN, [name, issuer, audience])
  const { createdAt, ...stored } = entryOf(row!)
  if (made.length === 0 && JSON.stringify(sorted(stored)) !== JSON.stringify(sorted(full)))
    throw new Rejected(
      'conflict',
      stored.name === name
        ? `There is an issuer ${name} with other settings: remove it first, or choose another name`
        : `The issuer ${stored.name} accepts tokens of ${issuer} for ${audience} already`,
    )
  return { ...stored, createdAt, owner: owner.id, isNew: made.length > 0 }
}

function sorted(issuer: object): unknown {
  return Object.entries(issuer).toSorted(([a], [b]) => (a < b ? -1 : 1))
}

/** Completes it, or says what is wrong with it. */
function checked({
  name,
  tenant,
  issuer,
  audience,
  jwksUrl = keysBelow(issuer),
  algorithms = ISSUER_ALGORITHMS,
  maxAgeSeconds = ISSUER_LIMITS.usualAgeSeconds,
}: NewIssuer): Issuer {
  const invalid = (field: string, text: string) => new Rejected('invalid', `${field}: ${text}`)
  if (!NAME.test(name)) throw invalid('name', 'use 1 to 63 letters, digits, dots, dashes and underscores')
  if (!TENANT_NAME.test(tenant)) throw invalid('tenant', 'is no name of a tenant')
  if (!isLine(issuer) || issuer === TOKEN_ISSUER)
    throw invalid('issuer', 'must be what the issuer writes into the claim iss, such as https://example.com/')
  const claimed = URL.parse(issuer)
  if (claimed?.username || claimed?.password)
    // it would be stored and listed
    throw invalid('issuer', 'must be without a user and a password')
  if (jwksUrl === '')
    throw invalid(
      'issuer',
      'must be a URL, such as https://example.com/, unless jwksUrl says where its public keys are',
    )
  if (!isLine(audience)) throw invalid('audience', 'must be what the issuer writes into the claim aud')
  const url = URL.parse(jwksUrl)
  const isOpen = url?.protocol === 'http:' && LOOPBACK.test(url.hostname)
  if (!isLine(jwksUrl) || !url || (url.protocol !== 'https:' && !isOpen) || url.username || url.password)
    throw invalid('jwksUrl', 'must be an https URL without a password')
  const wrong = algorithms.find((one) => !ISSUER_ALGORITHMS.includes(one))
  if (wrong !== undefined || algorithms.length === 0)
    throw invalid('algorithms', `use some of ${ISSUER_ALGORITHMS.join(', ')}`)
  const { ageSeconds } = ISSUER_LIMITS
  if (!Number.isInteger(maxAgeSeconds) || maxAgeSeconds < 1 || maxAgeSeconds > ageSeconds)
    throw invalid('maxAgeSeconds', `use a whole number from 1 to ${ageSeconds}`)
  return {
    name,
    tenant,
    issuer,
    audience,
    jwksUrl: url.href,
    algorithms: ISSUER_ALGORITHMS.filter((one) => algorithms.includes(one)),
    maxAgeSeconds,
  }
}

/** Auth0, Clerk and Supabase have their keys there. */
function keysBelow(issuer: string): string {
  return URL.parse('.well-known/jwks.json', issuer.endsWith('/') ? issuer : `${issuer}/`)?.href ?? ''
}

function isLine(text: string): boolean {
  return (
    text.length > 0 && text.length <= ISSUER_LIMITS.length && text.isWellFormed() && !/\p{Cc}/u.test(text)
  )
}

function entryOf({ createdAt, ...rest }: Row): IssuerEntry {
  return { ...rest, createdAt: createdAt.toISOString() }
}
