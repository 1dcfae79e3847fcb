// Whether a task can go on under other names. Pure.

/** The positions at which a task of one shape goes on in another: what it has done are the first names there, and what it
 *  still had to do is there in the same order. Names that are new run, if they come behind its position. */
export function findKeptPositions(from: readonly string[], to: readonly string[]): number[] {
  return [...from.keys(), from.length].filter(
    (position) =>
      from.slice(0, position).every((name, index) => to[index] === name) &&
      isWithin(from.slice(position), to.slice(position)),
  )
}

/** Whether all names are there, in this order. */
function isWithin(names: readonly string[], among: readonly string[]): boolean {
  let next = 0
  for (const name of among) if (name === names[next]) next += 1
  return next === names.length
}
