// The three ways in which a transaction can end:
//   committed      PostgreSQL confirmed it, and nobody cut short its wait for a standby
//   not-committed  nothing of it was or will be written
//   unknown        COMMIT was sent, and no reliable answer came; a repeat under the same key finds out what happened
import { Retry } from '../errors.ts'
import type { FailureClass } from './sqlstate.ts'

export type Outcome<T> =
  | { readonly type: 'committed'; readonly value: T }
  | { readonly type: 'not-committed'; readonly failure: FailureClass; readonly error: unknown }
  | { readonly type: 'unknown'; readonly error: unknown }

/** `read`: writes nothing. */
export type Access = 'read' | 'write'
/** Not pg's own type: a program that imports `fleetline` compiles without the types of pg. */
export type Query = <Row extends object>(text: string, values?: readonly unknown[]) => Promise<Row[]>

/** Returns the committed value, or throws the failure for the caller. For reads, and for writes that may be repeated. */
export function valueOf<T>(outcome: Outcome<T>, failed: string): T {
  if (outcome.type === 'committed') return outcome.value
  const { error: cause } = outcome
  if (outcome.type === 'not-committed' && outcome.failure === 'refused' && cause instanceof Error) throw cause
  throw new Retry('unavailable', failed, { cause })
}
