// What PostgreSQL does for a statement of ours, instead of what it answers.
import type { Query } from '../../src/store/database.ts'

export type Plan = {
  /** As JSON. */
  readonly text: string
  readonly buffers: number
}
type Explained = {
  readonly Plan: { readonly 'Shared Hit Blocks': number; readonly 'Shared Read Blocks': number }
}

/** A query that runs its statements under `explain`, answers no rows, and keeps their plans. */
export function explaining(query: Query): { readonly query: Query; readonly plans: readonly Plan[] } {
  const plans: Plan[] = []
  return {
    plans,
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      const explain = `explain (analyze, buffers, format json) ${text}`
      const rows = await query<{ 'QUERY PLAN': Explained[] }>(explain, values)
      const { Plan: plan } = rows[0]!['QUERY PLAN'][0]!
      plans.push({
        text: JSON.stringify(plan),
        buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
      })
      return [] as Row[]
    },
  }
}
