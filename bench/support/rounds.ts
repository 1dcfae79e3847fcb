// Runs cells side by side. Every round runs each cell once, and every other round runs them backwards, so that a machine whose
// speed drifts favours none. A ratio is computed round by round.

export type Cell<Result> = { readonly name: string; readonly run: (round: number) => Promise<Result> }

export async function runRounds<Result>(
  cells: readonly Cell<Result>[],
  rounds: number,
): Promise<ReadonlyMap<string, readonly Result[]>> {
  const results = new Map(cells.map(({ name }) => [name, [] as Result[]]))
  for (let round = 0; round < rounds; round += 1) {
    for (const { name, run } of round % 2 === 0 ? cells : cells.toReversed())
      results.get(name)!.push(await run(round))
  }
  return results
}

export function ratioOf(ours: readonly number[], theirs: readonly number[]): number {
  return medianOf(ours.map((value, round) => value / theirs[round]!))
}

export function medianOf(values: readonly number[]): number {
  return quantileOf(values, 0.5)
}

/** By nearest rank. */
export function quantileOf(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}
