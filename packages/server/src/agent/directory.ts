// Agents behind a URL, by (tenant, name). The secret that signs the calls of one is shown once, in the answer to who made
// it, and stored sealed under the fleet's key. Added again as it is, an agent is there once; added with another URL,
// secret or downstream, it is refused: whoever had it would not know.
import { Buffer } from 'node:buffer'
import { TASK_NAME } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import { keyOfAgent, mayName } from '../throttle/definition.ts'
import type { AddressGuard } from './guard.ts'
import { seal, unseal } from './seal.ts'
import { isSecret, newSecret, SECRET_RULE } from './signature.ts'

/** As people see it. */
export type AgentEntry = {
  readonly name: string
  readonly url: string
  /** Under whose permits it is called. */
  readonly downstream: string
  readonly createdAt: string
}
export type NewAgent = {
  readonly name: string
  readonly url: string
  /** One is made if none is given. */
  readonly secret?: string | undefined
  /** What it shares a limit with: a key that code has opened to agents. Its own if none is given. */
  readonly downstream?: string | undefined
}
export type Added = {
  readonly agent: AgentEntry
  /** Of an agent that was not there before. */
  readonly secret: string | undefined
}
/** As it is called. */
export type Located = {
  readonly name: string
  readonly url: string
  /** Undefined if the key of this pod does not open it. */
  readonly secret: string | undefined
  readonly downstream: string
}

export type AgentDirectory = {
  add(tenant: number, wanted: NewAgent): Promise<Added>
  list(tenant: number): Promise<readonly AgentEntry[]>
  find(tenant: number, name: string): Promise<AgentEntry | undefined>
  locate(tenant: number, name: string): Promise<Located | undefined>
  /** Whether it was there. Sessions that have it keep its name: their turns fail until it is added again. */
  remove(tenant: number, name: string): Promise<boolean>
}

type Deps = {
  readonly database: Transactions
  readonly random: Random
  readonly secretsKey: Uint8Array | null
  readonly guard: Pick<AddressGuard, 'check'>
  readonly isOpen: (key: string) => boolean
}

/** Of a tenant: they are listed at once. */
export const AGENT_LIMITS = { agents: 200, urlLength: 2_048 }

const OPEN = 'its app says so, downstream(key, { openToAgents: true })'
const COLUMNS = 'name, url, downstream, created_at'
// Adds of one tenant stand in line, so that their count holds.
const IN_LINE = 'select from fleetline.tenants where id = $1 for update'
const COUNT = 'select count(*)::int as count from fleetline.agents where tenant = $1'
const INSERT = `
  insert into fleetline.agents (tenant, name, url, secret, downstream) values ($1, $2, $3, $4, $5) returning ${COLUMNS}`
const FIND = `select ${COLUMNS}, secret from fleetline.agents where tenant = $1 and name = $2`
const LIST = `select ${COLUMNS} from fleetline.agents where tenant = $1 order by name`
const REMOVE = 'delete from fleetline.agents where tenant = $1 and name = $2 returning name'

type AgentRow = {
  readonly name: string
  readonly url: string
  readonly downstream: string | null
  readonly created_at: Date
}
type SealedRow = AgentRow & { readonly secret: Buffer }

export function createDirectory({ database, random, secretsKey, guard, isOpen }: Deps): AgentDirectory {
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
    { name, url, secret: given, downstream }: NewAgent,
  ): Promise<Added> => {
    await query(IN_LINE, [tenant])
    const [there] = await query<SealedRow>(FIND, [tenant, name])
    if (there) {
      const isSame =
        there.url === url &&
        there.downstream === (downstream ?? null) &&
        (given === undefined || given === open(tenant, there))
      if (!isSame) throw taken(name)
      return { agent: entryOf(tenant, there), secret: undefined }
    }
    const [row] = await query<{ count: number }>(COUNT, [tenant])
    if (row!.count >= AGENT_LIMITS.agents)
      throw new Rejected('too_many', `There are ${AGENT_LIMITS.agents} agents: remove one first`)
    const secret = given ?? newSecret(random)
    const sealed = seal(secret, { key: keyFor(secretsKey), owner: ownerOf(tenant, name) }, random)
    const [made] = await query<AgentRow>(INSERT, [tenant, name, url, sealed, downstream])
    return { agent: entryOf(tenant, made!), secret }
  }
  return {
    add: async (tenant, wanted) => {
      const { secret, downstream } = wanted
      const checked = { ...checkedOf(wanted, guard), secret, downstream }
      if (downstream !== undefined && !mayName(tenant, downstream, isOpen))
        throw new Rejected('invalid', `downstream: ${downstream} is not open to agents on this pod: ${OPEN}`)
      keyFor(secretsKey)
      return run((query) => insert(query, tenant, checked), 'Whether the agent was added is not known')
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
      return row && { ...entryOf(tenant, row), secret: open(tenant, row) }
    },
    remove: async (tenant, name) =>
      TASK_NAME.test(name) &&
      (await run((query) => query(REMOVE, [tenant, name]), 'Whether the agent was removed is not known'))
        .length > 0,
  }
}

/** Refuses what could never be called. */
function checkedOf(
  { name, url: text, secret }: NewAgent,
  guard: Deps['guard'],
): { readonly name: string; readonly url: string } {
  if (!TASK_NAME.test(name)) throw new Rejected('invalid', `name: must match ${TASK_NAME.source}`)
  if (secret !== undefined && !isSecret(secret))
    throw new Rejected('invalid', `secret: must be ${SECRET_RULE}`)
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol) || text.length > AGENT_LIMITS.urlLength)
    throw new Rejected(
      'invalid',
      `url: must begin with http:// or https://, and have at most ${AGENT_LIMITS.urlLength} characters`,
    )
  if (url.username !== '' || url.password !== '')
    throw new Rejected('invalid', 'url: must not hold a password: calls are signed with the secret')
  guard.check(url)
  url.hash = ''
  return { name, url: url.href }
}

function keyFor(secretsKey: Uint8Array | null): Uint8Array {
  if (secretsKey) return secretsKey
  const how =
    'set FLEETLINE_SECRETS_KEY on every pod, to the same 32 bytes of base64 (openssl rand -base64 32)'
  throw new Rejected('invalid', `Secrets of agents are stored sealed, and this pod has no key for it: ${how}`)
}

function taken(name: string): Rejected {
  const how = `to replace it, first remove it: its sessions stay, and are answered by the new one`
  return new Rejected('conflict', `There is an agent ${name} with another URL, secret or downstream; ${how}`)
}

function ownerOf(tenant: number, name: string): string {
  return `agent ${tenant} ${name}`
}

function entryOf(tenant: number, { name, url, downstream, created_at }: AgentRow): AgentEntry {
  return {
    name,
    url,
    downstream: downstream ?? keyOfAgent(tenant, name),
    createdAt: created_at.toISOString(),
  }
}
