/** Returns 0 for an empty list. */
export function medianOf(samples: readonly number[]): number {
  if (samples.length === 0) return 0
  const sorted = samples.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
