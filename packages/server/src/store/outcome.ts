// How a transaction ended. There are three outcomes, and no fourth:
//   committed      PostgreSQL said so, and nobody cut its wait for a standby short
//   not-committed  nothing of it was or will be written
//   unknown        COMMIT left, and no trustworthy answer came: a repeat under the same key finds the truth
import type pg from 'pg'
import { Retry } from '../errors.ts'
import type { FailureClass } from './sqlstate.ts'

export type Outcome<T> =
  | { readonly type: 'committed'; readonly value: T }
  | { readonly type: 'not-committed'; readonly failure: FailureClass; readonly error: unknown }
  | { readonly type: 'unknown'; readonly error: unknown }

export type Query = <Row extends pg.QueryResultRow>(
  text: string,
  values?: readonly unknown[],
) => Promise<Row[]>

/** What was committed, or the failure as its caller hears it: for reads, and for writes that may be sent again. */
export function valueOf<T>(outcome: Outcome<T>, failed: string): T {
  if (outcome.type === 'committed') return outcome.value
  const { error: cause } = outcome
  if (outcome.type === 'not-committed' && outcome.failure === 'refused' && cause instanceof Error) throw cause
  throw new Retry('unavailable', failed, { cause })
}
