// Revokes the tokens of a user: a cut ends every token that was issued to this user before it. Tokens that are issued later are
// valid. A cut is read for every request of a user, so it works at once on every pod (S9). Requests at the same time share one
// read. A cut is deleted when every token before it has expired (`duties.ts`).
import { createLoader } from '../lib/loader.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import type { Actor } from './actor.ts'
import type { Audit } from './audit.ts'

export type Cuts = {
  /** Like `cut`, in the caller's transaction. The caller writes the row of the audit log. */
  cutWithin(query: Query, tenant: number, user: string): Promise<Date>
  /** Resolves to the time of the cut. */
  cut(tenant: number, user: string, actor: Actor): Promise<Date>
  /** Whether a token that was issued to this user at this time has been cut. */
  isCut(tenant: number, user: string, issuedMs: number): Promise<boolean>
}
type Deps = { readonly database: Transactions; readonly audit: Pick<Audit, 'record'> }
type Issued = { readonly tenant: number; readonly user: string; readonly issuedMs: number }

const MOST_ASKED = 500
const CUT = `
  insert into fleetline.token_cuts as c (tenant, user_id, cut_at) values ($1, $2, clock_timestamp())
  on conflict (tenant, user_id) do update set cut_at = greatest(c.cut_at, excluded.cut_at) returning cut_at`
// The numbers, from 1, of those that are cut.
const AMONG = `
  select w.n::int as n
    from unnest($1::int[], $2::text[], $3::float8[]) with ordinality w (tenant, user_id, issued_ms, n)
    join fleetline.token_cuts c using (tenant, user_id)
   where extract(epoch from c.cut_at) * 1000 >= w.issued_ms`

export function createCuts({ database, audit }: Deps): Cuts {
  const isCut = createLoader<Issued, boolean>({
    most: MOST_ASKED,
    load: async (all) => {
      const values = [
        all.map(({ tenant }) => tenant),
        all.map(({ user }) => user),
        all.map(({ issuedMs }) => issuedMs),
      ]
      const outcome = await database.transaction((query) => query<{ n: number }>(AMONG, values), {
        access: 'read',
      })
      const found = new Set(valueOf(outcome, 'The revoked tokens cannot be read').map(({ n }) => n))
      return all.map((_, index) => found.has(index + 1))
    },
  })
  const cutWithin = async (query: Query, tenant: number, user: string) => {
    const [row] = await query<{ cut_at: Date }>(CUT, [tenant, user])
    return row!.cut_at
  }
  return {
    cutWithin,
    cut: async (tenant, user, actor) => {
      const outcome = await database.transaction(async (query) => {
        await audit.record(query, { actor, action: 'token.revoke', tenant, target: user })
        return cutWithin(query, tenant, user)
      })
      return valueOf(outcome, 'Whether the tokens were revoked is not known: revoke them again')
    },
    isCut: (tenant, user, issuedMs) => isCut({ tenant, user, issuedMs }),
  }
}
