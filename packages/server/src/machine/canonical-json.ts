// A value of JSON as a body sees it, whether it was just made or comes back from a row: keys in the order of jsonb, and
// frozen through and through, so that a resume shows nothing else. Pure.

export function toCanonical(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze(value.map(toCanonical))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).toSorted(([a], [b]) => compareKeys(a, b))
  return Object.freeze(Object.fromEntries(entries.map(([key, inner]) => [key, toCanonical(inner)])))
}

/** The shorter first, in bytes. */
function compareKeys(a: string, b: string): number {
  return Buffer.byteLength(a) - Buffer.byteLength(b) || Buffer.compare(Buffer.from(a), Buffer.from(b))
}
