// Changes of a session that are not in its log: its title, its metadata, and whether it is archived. A change locks the session's row and
// raises its version, so that followers of inboxes see it (I2). A message un-archives a session, too: append.ts does that.
import type { Metadata, Session } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import { untilCommitted } from '../store/until-committed.ts'
import { sessionOf, SESSION_COLUMNS, type SessionRow } from './directory.ts'
import { setArchived, type Membership } from './archive.ts'
import type { SessionKey } from './items.ts'

/** What is left out stays. Null removes a title or the metadata. */
export type SessionChange = {
  readonly title?: string | null | undefined
  readonly metadata?: Metadata | null | undefined
  readonly archived?: boolean | undefined
}

export type SessionChanges = {
  /** Undefined: there is no such session. May be repeated. */
  readonly change: (key: SessionKey, change: SessionChange) => Promise<Session | undefined>
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
  readonly deadlineMs: number
  /** Called after a commit that changed the session. */
  readonly onChanged: (key: SessionKey) => void
  /** Called after a commit that archived the session, or un-archived it, for each of its members. */
  readonly onMembershipChanged: (tenant: number, user: string, session: string) => void
}

// If nothing changes, no row is updated and the version stays.
const CHANGE = `
  update fleetline.sessions
     set title = case when $3 then $4 else title end, metadata = case when $5 then $6::jsonb else metadata end,
         archived_at = case when $7::boolean is null then archived_at when $7 then coalesce(archived_at, now()) end,
         version = version + 1
   where tenant = $1 and id = $2
     and ($3 and title is distinct from $4 or $5 and metadata is distinct from $6::jsonb
          or $7::boolean is not null and $7 <> (archived_at is not null))
  returning ${SESSION_COLUMNS}`

// The lock makes a repeat wait until the first commit has reached the standbys.
const LOCK = `
  select ${SESSION_COLUMNS} from fleetline.sessions where tenant = $1 and id = $2 and erased_at is null for no key update`

type Changed = {
  readonly row: SessionRow | undefined
  readonly hasChanged: boolean
  readonly members: readonly Membership[]
}

export function createChanges(deps: Deps): SessionChanges {
  return {
    change: async (key, wanted) => {
      const outcome = await untilCommitted(deps, (query) => change(query, key, wanted))
      const { row, hasChanged, members } = valueOf(
        outcome,
        'Whether the session was changed is not known: repeat the change',
      )
      if (hasChanged) deps.onChanged(key)
      for (const { tenant, user, session } of members) deps.onMembershipChanged(tenant, user, session)
      return row && sessionOf(row, deps.cell)
    },
  }
}

async function change(
  query: Query,
  { tenant, session }: SessionKey,
  { title, metadata, archived }: SessionChange,
): Promise<Changed> {
  const [before] = await query<SessionRow>(LOCK, [tenant, session])
  if (!before) return { row: undefined, hasChanged: false, members: [] }
  const asJson = metadata ? JSON.stringify(metadata) : null
  const values = [title !== undefined, title ?? null, metadata !== undefined, asJson, archived ?? null]
  const [after] = await query<SessionRow>(CHANGE, [tenant, session, ...values])
  const hasMoved = after !== undefined && after.archived !== before.archived
  const members = hasMoved ? await setArchived(query, [{ tenant, session }], after.archived) : []
  return { row: after ?? before, hasChanged: after !== undefined, members }
}
