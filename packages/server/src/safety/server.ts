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

// A role that became another one by SET ROLE can go back, so both count.
const FACTS = `
  select current_setting('server_version_num')::int as version, current_user as role,
         bool_or(r.rolsuper) as "isSuperuser", current_setting('fsync') as fsync,
         current_setting('synchronous_commit') as "synchronousCommit"
    from pg_roles r where r.rolname in (current_user, session_user)`

export async function readServer(query: Query): Promise<ServerFacts> {
  const [facts] = await query<ServerFacts>(FACTS)
  return facts!
}
