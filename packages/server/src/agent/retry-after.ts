// How long somebody asks us to wait before the next call: at most ten minutes.

const LONGEST_MS = 600_000

type Headers = { readonly [name: string]: unknown }

/** Reads the header: seconds, or a date by the sender's clock. Undefined: it is missing, or neither. */
export function retryAfterMs(headers: Headers | undefined, ours: number): number | undefined {
  const header = headers?.['retry-after']
  if (typeof header !== 'string') return undefined
  if (/^\d{1,9}$/.test(header)) return waitMs(Number(header) * 1000)
  if (!/^[A-Z]/i.test(header)) return undefined // Date.parse reads other texts as some date, too
  const theirs = Date.parse(String(headers?.['date']))
  return waitMs(Date.parse(header) - (Number.isNaN(theirs) ? ours : theirs))
}

/** Limits a number of milliseconds. Undefined for anything else. */
export function waitMs(value: unknown): number | undefined {
  if (typeof value !== 'number' || Number.isNaN(value)) return undefined
  return Math.min(LONGEST_MS, Math.max(0, value))
}
