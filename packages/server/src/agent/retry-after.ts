// When somebody wants to be asked again: at most ten minutes from now.

const LONGEST_MS = 600_000

type Headers = { readonly [name: string]: unknown }

/** Of the header: seconds, or a date by the clock of who sent it. Undefined: it is missing, or neither. */
export function retryAfterMs(headers: Headers | undefined, ours: number): number | undefined {
  const header = headers?.['retry-after']
  if (typeof header !== 'string') return undefined
  if (/^\d{1,9}$/.test(header)) return waitMs(Number(header) * 1000)
  if (!/^[A-Z]/i.test(header)) return undefined // all else is read as some date, too
  const theirs = Date.parse(String(headers?.['date']))
  return waitMs(Date.parse(header) - (Number.isNaN(theirs) ? ours : theirs))
}

/** Of a number of milliseconds; anything else says nothing. */
export function waitMs(value: unknown): number | undefined {
  if (typeof value !== 'number' || Number.isNaN(value)) return undefined
  return Math.min(LONGEST_MS, Math.max(0, value))
}
