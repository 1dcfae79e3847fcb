// Agents behind a URL, by (tenant, name). The secret that signs an agent's calls is shown once, in the answer to the caller
// that adds it. It is stored encrypted under the fleet's key. Adding the same agent again changes nothing. Adding it with
// another URL, secret or downstream is rejected, because whoever added it first would not notice the change: that is what `change`
// is for. Each call of an agent reads its row, so a change holds from the next call on.
import { Buffer } from 'node:buffer'
import { isDeepStrictEqual } from 'node:util'
import { TASK_NAME } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Audit } from '../identity/audit.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import { keyOfAgent, mayName } from '../throttle/definition.ts'
import type { AddressGuard } from './guard.ts'
import { seal, unseal } from './seal.ts'
import {
  changedBy,
  checkSettings,
  checkTogether,
  settingsOf,
  type AgentSettings,
  type SettingsChange,
} from './settings.ts'
import { isSecret, newSecret, SECRET_RULE } from './signature.ts'

/** An agent as people see it. */
export type AgentEntry = AgentSettings & {
  readonly name: string
  readonly url: string
  /** The downstream whose permits its calls need. */
  readonly downstream: string
  readonly createdAt: string
}
export type NewAgent = SettingsChange & {
  readonly name: string
  readonly url: string
  /** Generated if not given. */
  readonly secret?: string | undefined
  /** The downstream whose limit it shares: a key that code has opened to agents. If not given, it has its own. */
  readonly downstream?: string | undefined
}
/** What is left out stays as it is. */
export type AgentChange = SettingsChange & {
  readonly url?: string | undefined
  /** Signs the calls from now on. */
  readonly secret?: string | undefined
  /** Null: its own. */
  readonly downstream?: string | null | undefined
}
export type Added = {
  readonly agent: AgentEntry
  /** Set only if the agent was not there before. */
  readonly secret: string | undefined
}
/** An agent as it is called. */
export type Located = {
  readonly name: string
  readonly url: string
  /** Undefined if this pod's key does not decrypt it. */
  readonly secret: string | undefined
  readonly downstream: string
  readonly settings: AgentSettings
}

export type AgentDirectory = {
  add(tenant: number, wanted: NewAgent, actor: Actor): Promise<Added>
  list(tenant: number): Promise<readonly AgentEntry[]>
  find(tenant: number, name: string): Promise<AgentEntry | undefined>
  locate(tenant: number, name: string): Promise<Located | undefined>
  /** Undefined if there is no such agent. Writes nothing if nothing changes. */
  change(tenant: number, name: string, change: AgentChange, actor: Actor): Promise<AgentEntry | undefined>
  /** Returns whether it existed. Sessions keep its name: their turns wait until it is added again, and fail at their
   *  deadline. */
  remove(tenant: number, name: string, actor: Actor): Promise<boolean>
}

type Deps = {
  readonly database: Transactions
  readonly audit: Pick<Audit, 'record'>
  readonly random: Random
  readonly secretsKey: Uint8Array | null
  readonly guard: Pick<AddressGuard, 'check'>
  readonly isOpen: (key: string) => boolean
}

/** Per tenant. One answer lists all agents. */
export const AGENT_LIMITS = { agents: 200, urlLength: 2_048 }

const OPEN = 'its app says so, downstream(key, { openToAgents: true })'
const COLUMNS = 'name, url, downstream, settings, created_at'
// Locks the tenant's row: adds of one tenant run one after another, so that the count stays right.
const LOCK_TENANT = 'select from fleetline.tenants where id = $1 for update'
const COUNT = 'select count(*)::int as count from fleetline.agents where tenant = $1'
const INSERT = `
  insert into fleetline.agents (tenant, name, url, secret, downstream, settings) values ($1, $2, $3, $4, $5, $6)
  returning ${COLUMNS}`
const CHANGE = `
  update fleetline.agents set url = $3, secret = $4, downstream = $5, settings = $6 where tenant = $1 and name = $2
  returning ${COLUMNS}`
const FIND = `select ${COLUMNS}, secret from fleetline.agents where tenant = $1 and name = $2`
const LIST = `select ${COLUMNS} from fleetline.agents where tenant = $1 order by name`
const REMOVE = 'delete from fleetline.agents where tenant = $1 and name = $2 returning name'

type AgentRow = {
  readonly name: string
  readonly url: string
  readonly downstream: string | null
  readonly settings: SettingsChange
  readonly created_at: Date
}
type SealedRow = AgentRow & { readonly secret: Buffer }

export function createDirectory({
  database,
  audit,
  random,
  secretsKey,
  guard,
  isOpen,
}: Deps): AgentDirectory {
  const run = async <T>(work: (query: Query) => Promise<T>, failed: string) =>
    valueOf(await database.transaction(work), failed)
  const read = async <T>(work: (query: Query) => Promise<T>, failed: string) =>
    valueOf(await database.transaction(work, { access: 'read' }), failed)
  const find = async (tenant: number, name: string) => {
    if (!TASK_NAME.test(name)) return undefined // no agent has such a name, and PostgreSQL rejects a query with U+0000
    const [row] = await read((query) => query<SealedRow>(FIND, [tenant, name]), 'The agent cannot be read')
    return row
  }
  const open = (tenant: number, { name, secret }: SealedRow) =>
    secretsKey ? unseal(secret, { key: secretsKey, owner: ownerOf(tenant, name) }) : undefined

  const insert = async (
    query: Query,
    tenant: number,
    { name, url, secret: given, downstream, ...settings }: NewAgent,
  ): Promise<Added> => {
    await query(LOCK_TENANT, [tenant])
    const [there] = await query<SealedRow>(FIND, [tenant, name])
    if (there) {
      const isSame =
        there.url === url &&
        there.downstream === (downstream ?? null) &&
        (given === undefined || given === open(tenant, there)) &&
        isDeepStrictEqual(settingsOf(there.settings), settingsOf(changedBy(there.settings, settings)))
      if (!isSame) throw taken(name)
      return { agent: entryOf(tenant, there), secret: undefined }
    }
    const [row] = await query<{ count: number }>(COUNT, [tenant])
    if (row!.count >= AGENT_LIMITS.agents)
      throw new Rejected('too_many', `There are ${AGENT_LIMITS.agents} agents: remove one first`)
    checkTogether(settingsOf(settings))
    const secret = given ?? newSecret(random)
    const sealed = seal(secret, { key: keyFor(secretsKey), owner: ownerOf(tenant, name) }, random)
    const values = [tenant, name, url, sealed, downstream, JSON.stringify(changedBy({}, settings))]
    const [made] = await query<AgentRow>(INSERT, values)
    return { agent: entryOf(tenant, made!), secret }
  }
  const checkAll = (tenant: number, { url, secret, downstream, ...settings }: AgentChange) => {
    if (secret !== undefined && !isSecret(secret))
      throw new Rejected('invalid', `secret: must be ${SECRET_RULE}`)
    const href = url === undefined ? undefined : hrefOf('url', url, guard)
    if (downstream != null && !mayName(tenant, downstream, isOpen))
      throw new Rejected('invalid', `downstream: ${downstream} is not open to agents on this pod: ${OPEN}`)
    checkSettings('settings', settings)
    const { compaction } = settings
    if (compaction?.url != null) hrefOf('compaction.url', compaction.url, guard)
    if (secret !== undefined) keyFor(secretsKey)
    return href
  }
  const apply = async (query: Query, tenant: number, name: string, change: AgentChange) => {
    const [there] = await query<SealedRow>(`${FIND} for update`, [tenant, name])
    if (!there) return undefined
    const { url = there.url, secret, downstream = there.downstream, ...settings } = change
    const next = changedBy(there.settings, settings)
    checkTogether(settingsOf(next))
    const isOtherSecret = secret !== undefined && secret !== open(tenant, there)
    const isChanged =
      url !== there.url ||
      downstream !== there.downstream ||
      isOtherSecret ||
      !isDeepStrictEqual(next, there.settings)
    if (!isChanged) return { agent: entryOf(tenant, there), isChanged }
    const owner = ownerOf(tenant, name)
    const sealed = isOtherSecret ? seal(secret, { key: keyFor(secretsKey), owner }, random) : there.secret
    const [row] = await query<AgentRow>(CHANGE, [tenant, name, url, sealed, downstream, JSON.stringify(next)])
    return { agent: entryOf(tenant, row!), isChanged }
  }
  return {
    add: async (tenant, wanted, actor) => {
      if (!TASK_NAME.test(wanted.name)) throw new Rejected('invalid', `name: must match ${TASK_NAME.source}`)
      const checked = { ...wanted, url: checkAll(tenant, wanted)! }
      keyFor(secretsKey)
      const work = async (query: Query) => {
        const added = await insert(query, tenant, checked)
        const change = { actor, action: 'agent.add', tenant, target: checked.name } as const
        if (added.secret !== undefined) await audit.record(query, change)
        return added
      }
      return run(work, 'Whether the agent was added is not known')
    },
    list: async (tenant) =>
      (await read((query) => query<AgentRow>(LIST, [tenant]), 'The agents cannot be read')).map((row) =>
        entryOf(tenant, row),
      ),
    find: async (tenant, name) => {
      const row = await find(tenant, name)
      return row && entryOf(tenant, row)
    },
    locate: async (tenant, name) => {
      const row = await find(tenant, name)
      return row && { ...entryOf(tenant, row), settings: settingsOf(row.settings), secret: open(tenant, row) }
    },
    change: async (tenant, name, change, actor) => {
      const url = checkAll(tenant, change)
      if (!TASK_NAME.test(name)) return undefined
      const work = async (query: Query) => {
        const applied = await apply(query, tenant, name, { ...change, url })
        if (applied?.isChanged)
          await audit.record(query, { actor, action: 'agent.change', tenant, target: name })
        return applied?.agent
      }
      return run(work, 'Whether the agent was changed is not known')
    },
    remove: async (tenant, name, actor) => {
      if (!TASK_NAME.test(name)) return false
      const work = async (query: Query) => {
        const [removed] = await query(REMOVE, [tenant, name])
        if (removed) await audit.record(query, { actor, action: 'agent.remove', tenant, target: name })
        return removed !== undefined
      }
      return run(work, 'Whether the agent was removed is not known')
    },
  }
}

/** Rejects a URL that could never be called. The error names the field. */
export function hrefOf(field: string, text: string, guard: Pick<AddressGuard, 'check'>): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol) || text.length > AGENT_LIMITS.urlLength)
    throw new Rejected(
      'invalid',
      `${field}: must begin with http:// or https://, and have at most ${AGENT_LIMITS.urlLength} characters`,
    )
  if (url.username !== '' || url.password !== '')
    throw new Rejected('invalid', `${field}: must not hold a password: calls are signed with the secret`)
  guard.check(url, field)
  url.hash = ''
  return url.href
}

function keyFor(secretsKey: Uint8Array | null): Uint8Array {
  if (secretsKey) return secretsKey
  const how =
    'set FLEETLINE_SECRETS_KEY on every pod, to the same 32 bytes of base64 (openssl rand -base64 32)'
  throw new Rejected('invalid', `Secrets of agents are stored sealed, and this pod has no key for it: ${how}`)
}

function taken(name: string): Rejected {
  const how = 'to change it, use fleetline agents set'
  return new Rejected(
    'conflict',
    `There is an agent ${name} with another URL, secret, downstream or setting; ${how}`,
  )
}

function ownerOf(tenant: number, name: string): string {
  return `agent ${tenant} ${name}`
}

function entryOf(tenant: number, { name, url, downstream, settings, created_at }: AgentRow): AgentEntry {
  return {
    name,
    url,
    ...settingsOf(settings),
    downstream: downstream ?? keyOfAgent(tenant, name),
    createdAt: created_at.toISOString(),
  }
}
