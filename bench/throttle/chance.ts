// Random numbers from a seed: the same numbers for the same seed and name, on every machine.

export type Chance = {
  /** From 0 to below 1. */
  readonly unit: () => number
  /** Log-normal, with this mean and coefficient of variation. */
  readonly spread: (mean: number, cv: number) => number
}

export function chanceOf(seed: number, name: string): Chance {
  let state = [...name].reduce(
    (sum, letter) => Math.imul(sum ^ letter.charCodeAt(0), 0x01000193),
    seed ^ 0x811c9dc5,
  )
  const unit = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    unit,
    spread: (mean, cv) => {
      const variance = Math.log(1 + cv * cv)
      const normal = Math.sqrt(-2 * Math.log(1 - unit())) * Math.cos(2 * Math.PI * unit())
      return mean * Math.exp(Math.sqrt(variance) * normal - variance / 2)
    },
  }
}
