// The members of a session. Adding and removing may be repeated. Both lock the session's row first, so that two pods cannot
// exceed the limit together, and no message is appended meanwhile. A user that is added has read nothing yet.
import { SESSION_LIMITS } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import { createLoader } from '../lib/loader.ts'
import type { Random } from '../lib/random.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import { untilCommitted } from '../store/until-committed.ts'
import type { SessionKey } from './items.ts'

/** The result of a change. `full`: the session has reached its limit of members, and this user is not one of them. */
export type MemberChange = 'done' | 'full' | 'not-found'

export type Members = {
  /** In the order of their ids. Undefined: there is no such session. */
  readonly members: (key: SessionKey) => Promise<readonly string[] | undefined>
  readonly isMember: (key: SessionKey, user: string) => Promise<boolean>
  readonly addMember: (key: SessionKey, user: string) => Promise<MemberChange>
  readonly removeMember: (key: SessionKey, user: string) => Promise<MemberChange>
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly deadlineMs: number
  /** Called after a commit that added the user to a session, or removed it. */
  readonly onMembershipChanged: (tenant: number, user: string, session: string) => void
}

const LIST = `
  select array(select user_id from fleetline.members where tenant = $1 and session = $2 order by user_id) as users
    from fleetline.sessions where tenant = $1 and id = $2 and erased_at is null`

// The numbers, from 1, of those that are members.
const AMONG = `
  select w.n::int as n
    from unnest($1::int[], $2::uuid[], $3::text[]) with ordinality w (tenant, session, user_id, n)
   where exists (select from fleetline.members m
                  where m.tenant = w.tenant and m.session = w.session and m.user_id = w.user_id)`
const MOST_ASKED = 500

const LOCK = `
  select from fleetline.sessions where tenant = $1 and id = $2 and erased_at is null for no key update`

// A separate statement, so that its snapshot is taken after the lock.
const COUNT = `
  select count(*)::int as count, coalesce(bool_or(user_id = $3), false) as has
    from fleetline.members where tenant = $1 and session = $2`

const ADD = `insert into fleetline.members (tenant, session, user_id) values ($1, $2, $3)`

const REMOVE = `delete from fleetline.members where tenant = $1 and session = $2 and user_id = $3`

export function createMembers(deps: Deps): Members {
  const change = async (
    { tenant, session }: SessionKey,
    user: string,
    work: (query: Query, values: readonly unknown[]) => Promise<MemberChange>,
  ) => {
    const outcome = await untilCommitted(deps, async (query) => {
      const found = await query(LOCK, [tenant, session])
      return found.length === 0 ? 'not-found' : work(query, [tenant, session, user])
    })
    const changed = valueOf(outcome, 'Whether the members were changed is not known')
    if (changed === 'done') deps.onMembershipChanged(tenant, user, session)
    return changed
  }
  const isMember = createLoader<MemberKey, boolean>({
    most: MOST_ASKED,
    load: (keys) => areMembers(deps, keys),
  })
  return {
    isMember: (key, user) => isMember({ ...key, user }),
    members: async ({ tenant, session }) => {
      const outcome = await deps.database.transaction(
        (query) => query<{ users: string[] }>(LIST, [tenant, session]),
        { access: 'read' },
      )
      return valueOf(outcome, 'The members cannot be read')[0]?.users
    },
    addMember: (key, user) => change(key, user, add),
    removeMember: (key, user) =>
      change(key, user, async (query, values) => {
        await query(REMOVE, values)
        return 'done'
      }),
  }
}

type MemberKey = SessionKey & { readonly user: string }

async function areMembers({ database }: Deps, keys: readonly MemberKey[]): Promise<boolean[]> {
  const values = [
    keys.map(({ tenant }) => tenant),
    keys.map(({ session }) => session),
    keys.map(({ user }) => user),
  ]
  const outcome = await database.transaction((query) => query<{ n: number }>(AMONG, values), {
    access: 'read',
  })
  const found = new Set(valueOf(outcome, 'The members cannot be read').map(({ n }) => n))
  return keys.map((_, index) => found.has(index + 1))
}

async function add(query: Query, values: readonly unknown[]): Promise<MemberChange> {
  const [row] = await query<{ count: number; has: boolean }>(COUNT, values)
  if (row!.has) return 'done'
  if (row!.count >= SESSION_LIMITS.members) return 'full'
  await query(ADD, values)
  return 'done'
}
