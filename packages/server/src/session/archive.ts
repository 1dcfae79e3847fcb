// The copy of `archived` in the rows of members. It changes under the lock of the session, in the transaction that archives or un-archives
// the session.
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import type { SessionKey } from './items.ts'

const SET = `
  update fleetline.members m set archived = $3
    from unnest($1::int[], $2::uuid[]) v(tenant, session)
   where m.tenant = v.tenant and m.session = v.session and m.archived <> $3
  returning m.tenant, m.user_id as user, m.session`

export type Membership = { readonly tenant: number; readonly user: string; readonly session: string }

/** Returns the members: their inboxes have changed. */
export async function setArchived(
  query: Query,
  sessions: readonly SessionKey[],
  isArchived: boolean,
): Promise<readonly Membership[]> {
  if (sessions.length === 0) return []
  return query<Membership>(SET, [...columnsOf(sessions, 'tenant', 'session'), isArchived])
}
