// Facts about the PostgreSQL server and the database role, in one statement.
import type { Query } from '../store/database.ts'

export type ServerFacts = {
  /** As PostgreSQL numbers it: 150018 is 15.18. */
  readonly version: number
  readonly role: string
  readonly isSuperuser: boolean
  readonly fsync: string
  readonly synchronousCommit: string
}

// A role counts as a superuser if it can become one by SET ROLE, or can go back to one.
const FACTS = `
  select current_setting('server_version_num')::int as version, current_user as role,
         exists (select from pg_roles r where r.rolsuper and pg_has_role(session_user, r.oid, 'member')) as "isSuperuser", current_setting('fsync') as fsync,
         current_setting('synchronous_commit') as "synchronousCommit"`

export async function readServer(query: Query): Promise<ServerFacts> {
  const [facts] = await query<ServerFacts>(FACTS)
  return facts!
}
