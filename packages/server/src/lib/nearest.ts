// Finds the name that a person who mistyped most likely meant.

/** The first one, if several are equally near. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  return names.toSorted((a, b) => editDistance(name, a) - editDistance(name, b))[0]
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...b].entries()) {
      next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (letter === other ? 0 : 1)))
    }
    row = next
  }
  return row[b.length]!
}
