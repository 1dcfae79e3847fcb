// Shows how PostgreSQL executes our statements, instead of their results.
import type { Query } from '../../src/store/database.ts'

export type Plan = {
  /** The plan as JSON. */
  readonly text: string
  readonly buffers: number
}
type Explained = {
  readonly Plan: { readonly 'Shared Hit Blocks': number; readonly 'Shared Read Blocks': number }
}

/** Wraps a query function: runs each statement under `explain`, returns no rows, and keeps the plan. */
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
