// Which sessions there are. Rows are found by (tenant, id) or (tenant, alias), never by less: a session of another tenant
// is one that does not exist. Ids are made here, in time's order, and carry the cell. A tenant has one session of an alias,
// also if many make it at once.
import { formatId, uuidV7, type Session } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { SessionKey } from './place.ts'

type NewSession = {
  readonly alias: string | null
  readonly title: string | null
  readonly agent: string | null
  readonly members: readonly string[]
}

export type SessionDirectory = {
  /**
   * With an alias that is taken: the session that has it, as it is. Without one, a repeat after an unknown outcome makes
   * another session; the first then stays empty.
   */
  create(tenant: number, session: NewSession): Promise<Made>
  /** The id of the session that has this alias. */
  named(tenant: number, alias: string): Promise<string | undefined>
  find(key: SessionKey): Promise<Session | undefined>
  /** The newest first: those made before the session `before`, or the last ones made. */
  list(tenant: number, range: ListRange): Promise<readonly Session[]>
}

type Made = { readonly session: Session; /** Now, not before. */ readonly isNew: boolean }
type ListRange = { readonly before?: string; readonly limit: number }

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
}

const COLUMNS = 'id, alias, title, head, agent, epoch, turn, created_at, updated_at'

// One that is being made under this alias is waited for; if that fails, this one is made.
const CREATE = `
  insert into fleetline.sessions (tenant, id, alias, title, agent) values ($1, $2, $3, $4, $5)
  on conflict (tenant, alias) where alias is not null do nothing
  returning ${COLUMNS}`

const ADD_MEMBERS = `
  insert into fleetline.members (tenant, session, user_id)
  select $1, $2, m from unnest($3::text[]) m on conflict do nothing`

const NAMED = `select ${COLUMNS} from fleetline.sessions where tenant = $1 and alias = $2`
// The lock makes the commit wait for standbys, as the one that made it should have: its maker may have heard "unknown".
const MADE_BEFORE = `${NAMED} for update`

const FIND = `select ${COLUMNS} from fleetline.sessions where tenant = $1 and id = $2`

// By the primary key: ids are in the order of time, and an order by what every append changes would need an index that
// every append changes.
const LIST = `
  select ${COLUMNS} from fleetline.sessions where tenant = $1 and id < $2 order by id desc limit $3`
const BEHIND_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

type SessionRow = {
  readonly id: string
  readonly alias: string | null
  readonly title: string | null
  readonly head: number
  readonly agent: string | null
  readonly epoch: number
  readonly turn: string | null
  readonly created_at: Date
  readonly updated_at: Date
}

export function createDirectory({ database, clock, random, cell }: Deps): SessionDirectory {
  const sessionOf = ({ id, turn, created_at, updated_at, ...row }: SessionRow): Session => ({
    session: formatId('session', cell, id),
    ...row,
    state: turn === null ? 'idle' : 'working',
    turn: turn === null ? null : formatId('turn', cell, turn),
    createdAt: created_at.toISOString(),
    updatedAt: updated_at.toISOString(),
  })
  const insert = async (query: Query, tenant: number, { alias, title, agent, members }: NewSession) => {
    const id = uuidV7(clock.now(), random.bytes(10))
    const [made] = await query<SessionRow>(CREATE, [tenant, id, alias, title, agent])
    if (made && members.length > 0) await query(ADD_MEMBERS, [tenant, id, members])
    const [row] = made ? [made] : await query<SessionRow>(MADE_BEFORE, [tenant, alias])
    return { row: row!, isNew: made !== undefined }
  }
  const read = async (sql: string, values: unknown[]) => {
    const outcome = await database.transaction((query) => query<SessionRow>(sql, values), { access: 'read' })
    return valueOf(outcome, 'The session cannot be read')[0]
  }
  return {
    create: async (tenant, session) => {
      const outcome = await database.transaction((query) => insert(query, tenant, session))
      const { row, isNew } = valueOf(outcome, 'Whether the session was made is not known')
      return { session: sessionOf(row), isNew }
    },
    named: async (tenant, alias) => (await read(NAMED, [tenant, alias]))?.id,
    find: async ({ tenant, session }) => {
      const row = await read(FIND, [tenant, session])
      return row && sessionOf(row)
    },
    list: async (tenant, { before = BEHIND_ALL, limit }) => {
      const outcome = await database.transaction(
        (query) => query<SessionRow>(LIST, [tenant, before, limit]),
        {
          access: 'read',
        },
      )
      return valueOf(outcome, 'The sessions cannot be read').map(sessionOf)
    },
  }
}
