// Lengths of time as people write them: `500ms`, `30s`, `5m`, `2h`, `1d`. Pure.
import { Rejected } from '../errors.ts'

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** In milliseconds. */
export function durationMs(name: string, text: string): number {
  const [, count, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? []
  if (count === undefined)
    throw new Rejected('invalid', `${name}: must be a length of time such as 500ms, 30s, 5m, 2h or 1d`)
  return Number(count) * UNITS[unit!]!
}
