// Reads sessions of users, as their members see them. Each statement joins the member's row, so it returns nothing of a session
// that its user has left (I3).
import { INBOX_LIMITS } from '@fleetline/protocol'
import { createLoader } from '../lib/loader.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import type { SessionKey } from '../session/items.ts'
import { sessionRev, type MemberSession, type ShownSession } from './item.ts'

/** Whose inbox. */
export type InboxUser = {
  readonly tenant: number
  readonly user: string
  /** The UUIDs of the sessions that the token names; undefined if it names none. */
  readonly sessions: readonly string[] | undefined
}

/** The place of the last item of a page. */
export type PagePlace = { readonly updatedUs: number; readonly session: string }
export type PageRange = {
  readonly isArchived: boolean
  readonly after: PagePlace | undefined
  readonly limit: number
}

type MemberKey = SessionKey & { readonly user: string }

export function isThere(look: ShownSession | Gone): look is ShownSession {
  return !('isGone' in look)
}

export type InboxReading = {
  /** The user's newest sessions that are not archived, or all that its token names. Not sorted. */
  readonly newest: (user: InboxUser) => Promise<readonly MemberSession[]>
  /** Newest first. */
  readonly page: (user: InboxUser, range: PageRange) => Promise<readonly ShownSession[]>
  readonly one: (key: MemberKey) => Promise<ShownSession | Gone>
}
/** The user is no member. `rev` is higher than that of any item before the removal, and lower than that of any item after the user is
 *  added again; undefined if there is no such session. */
export type Gone = { readonly isGone: true; readonly rev: number | undefined }

const MOST_READ = 64 // each unpacks the last message of its session
const MOST_USERS = 16 // in one statement: at most 16,000 sessions
const MOST_NAMED = 128 // users whose tokens name their sessions, up to 20 each

const OF_SESSION = `s.tenant, s.id as session, s.head, s.epoch, s.turn, s.compacting, s.version, s.replied, s.failed_epoch as "failedEpoch", s.updated_at,
       (extract(epoch from s.updated_at) * 1000000)::float8 as "updatedUs"`
const OF_MEMBER = `m.read, m.read_version as "readVersion", m.seen_epoch as "seenEpoch", m.archived`

// Each session is looked up by its key: the planner must not read all sessions of a tenant. A pod of the previous release may add a member to
// an erased session.
const SESSION_OF = (columns: string) => `
  cross join lateral (
    select ${columns} from fleetline.sessions s where s.tenant = m.tenant and s.id = m.session and s.erased_at is null offset 0) s`

// Whole days, as below: the index has no order within a day.
const NEWEST = `
  select k.n::int as n, s.*
    from unnest($1::int[], $2::text[]) with ordinality k(tenant, user_id, n)
   cross join lateral (
     select s.*, ${OF_MEMBER}
       from (select * from fleetline.members
              where tenant = k.tenant and user_id = k.user_id and not archived
                and day >= coalesce((select day from fleetline.members
                                      where tenant = k.tenant and user_id = k.user_id and not archived
                                      order by day desc offset ${INBOX_LIMITS.newest - 1} limit 1), '-infinity'::date)) m
     ${SESSION_OF(OF_SESSION)}
      order by s.updated_at desc, s.session desc limit ${INBOX_LIMITS.newest}) s`

const NAMED = `
  select k.n, s.*, ${OF_MEMBER}
    from unnest($1::int[], $2::int[], $3::text[], $4::uuid[]) k(n, tenant, user_id, session)
   cross join lateral (
     select * from fleetline.members m
      where m.tenant = k.tenant and m.session = k.session and m.user_id = k.user_id offset 0) m
  ${SESSION_OF(OF_SESSION)}`

// Adds what people see to rows of \`s\`. The row comparison with a limit can only use the primary key; with equalities the planner
// may read the whole session.
const shown = (from: string) => `
  with s as (${from})
  select s.*, t.started_at as since, x.role, x.text
    from s
    left join fleetline.turns t on t.tenant = s.tenant and t.id = s.turn
    left join lateral (
      select x.session, x.seq, x.role,
             left((select p ->> 'text' from jsonb_array_elements(x.body -> 'parts') with ordinality e(p, n)
                    where p ->> 'type' = 'text' order by n desc limit 1), ${INBOX_LIMITS.preview}) as text
        from fleetline.messages x
       where x.tenant = s.tenant and (x.session, x.seq) >= (s.session, s.head)
       order by x.tenant, x.session, x.seq limit 1) x on x.session = s.session and x.seq = s.head`
const SHOWN = `${OF_SESSION}, s.alias, s.title, s.agent`

// Reads whole days, the newest first, until there are enough sessions, and sorts them. The day of the place is read, too: some of its
// sessions come after the place. So the cost is that of a page and one day, whatever the number of the user's sessions.
export const PAGE = `
  ${shown(`
    with bound as (
      select coalesce((select day from fleetline.members
                        where tenant = $1 and user_id = $2 and archived = $3 and day < $4::date
                        order by day desc offset $7::int - 1 limit 1), '-infinity'::date) as day)
    select s.*, ${OF_MEMBER}
      from bound b
     cross join lateral (
       select * from fleetline.members
        where tenant = $1 and user_id = $2 and archived = $3 and day <= $4::date and day >= b.day) m
    ${SESSION_OF(SHOWN)}
     where (s."updatedUs", s.session) < ($5::float8, $6::uuid)
     order by s.updated_at desc, s.session desc limit $7`)}
   order by s.updated_at desc, s.session desc`
const BEFORE_ALL = { updatedUs: Number.POSITIVE_INFINITY, session: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }

export const ITEMS = shown(`
    select k.n::int as n, s.*, ${OF_MEMBER}
      from unnest($1::int[], $2::uuid[], $3::text[]) with ordinality k(tenant, session, user_id, n)
     cross join lateral (
       select * from fleetline.members m
        where m.tenant = k.tenant and m.session = k.session and m.user_id = k.user_id offset 0) m
    ${SESSION_OF(SHOWN)}`)

// Of sessions whose user is no member: nothing that they say.
const GONE = `
  select k.n::int as n, s.head, s.epoch, s.turn, s.version
    from unnest($1::int[], $2::uuid[]) with ordinality k(tenant, session, n)
    join fleetline.sessions s on s.tenant = k.tenant and s.id = k.session`
type GoneRow = Pick<MemberSession, 'head' | 'epoch' | 'turn' | 'version'> & { readonly n: number }

export function createInboxReading({ database }: { readonly database: Transactions }): InboxReading {
  const read = async <Row>(work: (query: Query) => Promise<Row[]>) =>
    valueOf(await database.transaction(work, { access: 'read' }), 'The inbox cannot be read')
  const one = createLoader<MemberKey, ShownSession | Gone>({
    most: MOST_READ,
    load: async (keys) => {
      const columns = columnsOf(keys, 'tenant', 'session', 'user')
      const rows = await read((query) => query<ShownSession & { readonly n: number }>(ITEMS, columns))
      const found = new Map(rows.map((row) => [keys[row.n - 1]!, row]))
      const others = keys.filter((key) => !found.has(key))
      const revs = others.length === 0 ? new Map<MemberKey, number>() : await revsOf(others)
      return keys.map((key) => found.get(key) ?? { isGone: true, rev: revs.get(key) })
    },
  })
  const revsOf = async (keys: readonly MemberKey[]) => {
    const rows = await read((query) => query<GoneRow>(GONE, columnsOf(keys, 'tenant', 'session')))
    return new Map(rows.map((row) => [keys[row.n - 1]!, sessionRev(row) - 1]))
  }
  const ofUser = createLoader<InboxUser, readonly MemberSession[]>({
    most: MOST_USERS,
    load: async (users) => {
      const columns = columnsOf(users, 'tenant', 'user')
      return perUser(users, await read((query) => query<Numbered>(NEWEST, columns)))
    },
  })
  const ofNames = createLoader<InboxUser, readonly MemberSession[]>({
    most: MOST_NAMED,
    load: async (users) => {
      const keys = users.flatMap(({ tenant, user, sessions = [] }, index) =>
        sessions.map((session) => ({ n: index + 1, tenant, user, session })),
      )
      const columns = columnsOf(keys, 'n', 'tenant', 'user', 'session')
      return perUser(users, await read((query) => query<Numbered>(NAMED, columns)))
    },
  })
  return {
    one,
    newest: (inbox) => (inbox.sessions ? ofNames(inbox) : ofUser(inbox)),
    page: ({ tenant, user }, { isArchived, after = BEFORE_ALL, limit }) =>
      read((query) =>
        query<ShownSession>(PAGE, [
          tenant,
          user,
          isArchived,
          dayOf(after),
          after.updatedUs,
          after.session,
          limit,
        ]),
      ),
  }
}

/** With the number of its user in the statement. */
type Numbered = MemberSession & { readonly n: number }

function perUser(users: readonly InboxUser[], rows: readonly Numbered[]): (readonly MemberSession[])[] {
  const found = Map.groupBy(rows, ({ n }) => n)
  return users.map((_, index) => found.get(index + 1) ?? [])
}

function dayOf({ updatedUs }: PagePlace): string {
  return updatedUs === Number.POSITIVE_INFINITY
    ? 'infinity'
    : new Date(updatedUs / 1000).toISOString().slice(0, 10)
}
