// When somebody wants to be asked again: at most ten minutes from now.

const LONGEST_MS = 600_000

/** Of the header of that name: seconds, or a date. Undefined: it is missing, or neither. */
export function retryAfterMs(header: unknown, now: number): number | undefined {
  if (typeof header !== 'string') return undefined
  const isDate = /^[A-Z]/i.test(header) // all else is read as some date, too
  const isSeconds = /^\d{1,9}$/.test(header)
  return waitMs(isSeconds ? Number(header) * 1000 : isDate ? Date.parse(header) - now : undefined)
}

/** Of a number of milliseconds; anything else says nothing. */
export function waitMs(value: unknown): number | undefined {
  if (typeof value !== 'number' || Number.isNaN(value)) return undefined
  return Math.min(LONGEST_MS, Math.max(0, value))
}
