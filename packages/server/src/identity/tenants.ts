// Turns a tenant's name into its number. Rows are keyed by the number; names appear only at the HTTP ports. A number never
// changes, so it is kept after the first read. There are as many entries as tenants that have called.
import { Bug } from '../errors.ts'
import { valueOf, type Database } from '../store/database.ts'

/** There is no authentication yet, so there is one tenant. */
export const ONLY_TENANT = 'dev'

export type Tenants = {
  numberOf(name: string): Promise<number>
}

const NUMBER = 'select id from fleetline.tenants where name = $1'

export function createTenants({ database }: { readonly database: Database }): Tenants {
  const known = new Map<string, number>()
  return {
    numberOf: async (name) => {
      const kept = known.get(name)
      if (kept !== undefined) return kept
      const outcome = await database.transaction((query) => query<{ id: number }>(NUMBER, [name]), {
        access: 'read',
      })
      const [row] = valueOf(outcome, 'The tenant cannot be read')
      if (!row) throw new Bug('A door let in a tenant that does not exist')
      known.set(name, row.id)
      return row.id
    },
  }
}
