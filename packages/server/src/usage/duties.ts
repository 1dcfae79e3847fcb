// The leader's duty for usage. Every minute it sums what is left of days that ended at least a day ago, 50 tenants in a step, as many
// steps as there is time for. Metric: `fleetline_duty_seconds`.
import type { Transactions } from '../store/database.ts'
import type { Duty } from '../store/leader.ts'
import { sumNextTenants } from './sums.ts'

const SUM_MS = 60_000

export function usageDuties({ database }: { readonly database: Transactions }): Duty[] {
  const run: Duty['run'] = async (term, hasTime) => {
    while (hasTime() && (await sumNextTenants(database, term)));
  }
  return [{ name: 'usage of ended days', everyMs: SUM_MS, run }]
}
