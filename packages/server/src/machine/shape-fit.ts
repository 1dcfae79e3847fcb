// Decides whether a task can continue after the names of its machine's transitions have changed. Pure.

/** The positions at which a task of one shape can continue in another. Its finished transitions must be the first names of the
 *  new shape, and its remaining ones must be there in the same order. New names after its position run, too. */
export function findKeptPositions(from: readonly string[], to: readonly string[]): number[] {
  return [...from.keys(), from.length].filter(
    (position) =>
      from.slice(0, position).every((name, index) => to[index] === name) &&
      isWithin(from.slice(position), to.slice(position)),
  )
}

/** Whether all names appear in this order. */
function isWithin(names: readonly string[], among: readonly string[]): boolean {
  let next = 0
  for (const name of among) if (name === names[next]) next += 1
  return next === names.length
}
