// Creates, finds and lists sessions. Rows are found by (tenant, id) or (tenant, alias), never by less: to a tenant, a session
// of another tenant does not exist. Ids are made here, in order of time, and carry the cell. A tenant has one session per
// alias, even if many callers create it at once.
import { formatId, uuidV7, type Metadata, type Session } from '@fleetline/protocol'
import { Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { SessionKey } from './items.ts'

type NewSession = {
  readonly alias: string | null
  readonly title: string | null
  readonly metadata: Metadata | null
  readonly agent: string | null
  readonly members: readonly string[]
}

export type SessionDirectory = {
  /**
   * If the alias is taken, returns the session that has it, unchanged. Without an alias, a repeat after an unknown outcome
   * creates a second session, and the first one stays empty.
   */
  create(tenant: number, session: NewSession): Promise<Made>
  /** The id of the session with this alias. */
  named(tenant: number, alias: string): Promise<string | undefined>
  /** Undefined also if it was erased. */
  find(key: SessionKey): Promise<Session | undefined>
  isErased(key: SessionKey): Promise<boolean>
  /** Newest first: the sessions created before the session `before`, or the latest ones. */
  list(tenant: number, range: ListRange): Promise<readonly Session[]>
}

type Made = { readonly session: Session; /** This call created it. */ readonly isNew: boolean }
type ListRange = { readonly before?: string; readonly limit: number }

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
  /** Called after a commit that added the user to a new session. */
  readonly onMembershipChanged: (tenant: number, user: string) => void
}

export const SESSION_COLUMNS =
  'id, alias, title, metadata, archived_at is not null as archived, head, agent, epoch, turn, compacting, created_at, updated_at'

// If another transaction is creating a session with this alias, the insert waits for it. If that one fails, this one creates it.
const CREATE = `
  insert into fleetline.sessions (tenant, id, alias, title, agent, metadata) values ($1, $2, $3, $4, $5, $6)
  on conflict (tenant, alias) where alias is not null do nothing
  returning ${SESSION_COLUMNS}`

const ADD_MEMBERS = `
  insert into fleetline.members (tenant, session, user_id)
  select $1, $2, m from unnest($3::text[]) m on conflict do nothing`

const NAMED = `select ${SESSION_COLUMNS} from fleetline.sessions where tenant = $1 and alias = $2` // an erased session has none
// The first transaction may have ended as unknown before it reached the standbys. The lock makes this commit wait for them.
const MADE_BEFORE = `${NAMED} for update`
/** If the session that has the alias is erased between the two statements, the alias is free again. */
const MOST_TRIES = 3

const FIND = `select ${SESSION_COLUMNS} from fleetline.sessions where tenant = $1 and id = $2 and erased_at is null`

const FIND_ERASED = `
  select ${SESSION_COLUMNS} from fleetline.sessions where tenant = $1 and id = $2 and erased_at is not null`

// Lists by the primary key, because ids are in order of time. Ordering by a column that every append changes would need an
// index that every append changes.
const LIST = `
  select ${SESSION_COLUMNS} from fleetline.sessions where tenant = $1 and id < $2 and erased_at is null order by id desc limit $3`
const BEHIND_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export type SessionRow = {
  readonly id: string
  readonly alias: string | null
  readonly title: string | null
  readonly metadata: Metadata | null
  readonly archived: boolean
  readonly head: number
  readonly agent: string | null
  readonly epoch: number
  readonly turn: string | null
  readonly compacting: string | null
  readonly created_at: Date
  readonly updated_at: Date
}

export function createDirectory({
  database,
  clock,
  random,
  cell,
  onMembershipChanged,
}: Deps): SessionDirectory {
  const insert = async (
    query: Query,
    tenant: number,
    { alias, title, metadata, agent, members }: NewSession,
  ) => {
    const id = uuidV7(clock.now(), random.bytes(10))
    const values = [tenant, id, alias, title, agent, metadata && JSON.stringify(metadata)]
    for (let tries = 0; tries < MOST_TRIES; tries += 1) {
      const [made] = await query<SessionRow>(CREATE, values)
      if (made && members.length > 0) await query(ADD_MEMBERS, [tenant, id, members])
      const [row] = made ? [made] : await query<SessionRow>(MADE_BEFORE, [tenant, alias])
      if (row) return { row, isNew: made !== undefined }
    }
    throw new Retry(
      'unavailable',
      `Sessions with the alias "${alias}" are being erased. Send the request again`,
    )
  }
  const read = async (sql: string, values: unknown[]) => {
    const outcome = await database.transaction((query) => query<SessionRow>(sql, values), { access: 'read' })
    return valueOf(outcome, 'The session cannot be read')[0]
  }
  return {
    create: async (tenant, session) => {
      const outcome = await database.transaction((query) => insert(query, tenant, session))
      const { row, isNew } = valueOf(outcome, 'Whether the session was made is not known')
      if (isNew) for (const user of session.members) onMembershipChanged(tenant, user)
      return { session: sessionOf(row, cell), isNew }
    },
    named: async (tenant, alias) => (await read(NAMED, [tenant, alias]))?.id,
    find: async ({ tenant, session }) => {
      const row = await read(FIND, [tenant, session])
      return row && sessionOf(row, cell)
    },
    isErased: async ({ tenant, session }) => (await read(FIND_ERASED, [tenant, session])) !== undefined,
    list: async (tenant, { before = BEHIND_ALL, limit }) => {
      const outcome = await database.transaction(
        (query) => query<SessionRow>(LIST, [tenant, before, limit]),
        {
          access: 'read',
        },
      )
      return valueOf(outcome, 'The sessions cannot be read').map((row) => sessionOf(row, cell))
    },
  }
}

export function sessionOf(
  { id, turn, compacting, created_at, updated_at, ...row }: SessionRow,
  cell: number,
): Session {
  return {
    session: formatId('session', cell, id),
    ...row,
    state: turn !== null ? 'working' : compacting === null ? 'idle' : 'compacting',
    turn: turn === null ? null : formatId('turn', cell, turn),
    createdAt: created_at.toISOString(),
    updatedAt: updated_at.toISOString(),
  }
}
