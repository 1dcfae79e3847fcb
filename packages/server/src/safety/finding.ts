// What `fleetline doctor` says about one thing that it has examined.
import { flagOf } from '../config.ts'
import type { InsecureName } from '../lib/insecure.ts'
import type { SafetyCheck } from './checks.ts'

export type Finding = {
  /** `warn`: a pod starts and works, but somebody should know. `red`: it does not start, or does not work. */
  readonly state: 'ok' | 'warn' | 'red'
  readonly name: string
  readonly found: string
  /** What to do about it. Undefined only if the state is ok. */
  readonly remedy?: string
}

/** A check that keeps pods from starting. If `allowInsecure` names it, pods start all the same. */
export function findingOf(
  { name, isOk, found, remedy }: SafetyCheck,
  allowed: readonly InsecureName[],
): Finding {
  if (isOk) return { state: 'ok', name, found }
  if (!allowed.includes(name)) return { state: 'red', name, found, remedy }
  return { state: 'warn', name, found: `${found}, allowed by ${flagOf('allowInsecure')} ${name}`, remedy }
}
