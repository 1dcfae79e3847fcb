// A JSON value as a body sees it: keys in the order of jsonb, and deeply frozen. A new value and one that is read back from a row
// look the same, so a body sees no difference after a resume. Pure.

export function toCanonical(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze(value.map(toCanonical))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).toSorted(([a], [b]) => compareKeys(a, b))
  return Object.freeze(Object.fromEntries(entries.map(([key, inner]) => [key, toCanonical(inner)])))
}

/** Shorter keys first, compared as bytes. */
function compareKeys(a: string, b: string): number {
  return Buffer.byteLength(a) - Buffer.byteLength(b) || Buffer.compare(Buffer.from(a), Buffer.from(b))
}
