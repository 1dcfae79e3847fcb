// Divides a capacity among pods and moves shares from one pod to another. Pure.
//   divide    What each pod should have: one each, the rest by what they want, with the greatest wants cut to one level. What
//             nobody wants is spread evenly, for bursts. If there are fewer permits than pods, they rotate: one moves every 30 s.
//   handOver  What each pod gets now. A pod that should have less loses it at once. A pod that should have more gets it only
//             from permits that are certainly free, because another pod may still act on its earlier share. So the shares in
//             force never sum above the capacity (T1). Calls in flight above a share that has shrunk are not cancelled; their
//             permits go to nobody until they end.

type Claimant = {
  readonly pod: number
  readonly want: number
  readonly most: number
  /** What the pod has now. */
  readonly share: number
}

const TURN_MS = 30_000

/** In the order of the claimants. */
export function divide(capacity: number, claimants: readonly Claimant[], nowMs: number): number[] {
  const count = claimants.length
  if (capacity < count) {
    const ranks = ranksOf(claimants)
    const turn = Math.floor(nowMs / TURN_MS) % count
    return ranks.map((rank) => ((rank - turn + count) % count < capacity ? 1 : 0))
  }
  const wanted = fill(
    capacity - count,
    claimants.map(({ want, most }) => Math.min(most, Math.ceil(want)) - 1),
    claimants,
  )
  const left = capacity - count - sum(wanted)
  const spare = fill(
    left,
    claimants.map(({ most }, index) => most - 1 - wanted[index]!),
    claimants,
  )
  return claimants.map((_, index) => 1 + wanted[index]! + spare[index]!)
}

type Move = {
  readonly pod: number
  readonly share: number
  /** The most that the pod may act on now. */
  readonly inForce: number
  /** The pod's calls in flight. */
  readonly held: number
  readonly target: number
}

/** In the order of the moves. */
export function handOver(capacity: number, moves: readonly Move[]): number[] {
  const kept = keep(capacity, moves)
  const taken = sum(moves.map(({ inForce, held }, index) => Math.max(inForce, held, kept[index]!)))
  const lacks = moves.map(({ target }, index) => target - kept[index]!)
  const room = Math.max(0, Math.min(capacity - taken, sum(lacks)))
  const unmet = fill(sum(lacks) - room, lacks, moves) // fills the largest lack first
  return kept.map((share, index) => share + lacks[index]! - unmet[index]!)
}

/** How much of its share each pod keeps: what it should have, or less where calls of other pods take up the capacity. */
function keep(capacity: number, moves: readonly Move[]): number[] {
  const kept = moves.map(({ share, target }) => Math.min(share, target))
  const unused = moves.map(({ held }, index) => Math.max(0, kept[index]! - held))
  const taken = sum(moves.map(({ held }, index) => Math.max(held, kept[index]!)))
  const given = fill(Math.max(0, Math.min(sum(unused), taken - capacity)), unused, moves)
  return kept.map((share, index) => share - given[index]!)
}

/** Spreads an amount as evenly as the tops allow. The remainder goes to those that already have more, so that shares stay put. */
function fill(
  amount: number,
  tops: readonly number[],
  who: readonly { readonly pod: number; readonly share: number }[],
): number[] {
  const level = levelOf(amount, tops)
  const given = tops.map((top) => Math.min(top, level))
  const order = tops
    .map((_, index) => index)
    .filter((index) => tops[index]! > level)
    .toSorted((a, b) => who[b]!.share - who[a]!.share || who[a]!.pod - who[b]!.pod)
  for (const index of order.slice(0, Math.max(0, amount - sum(given)))) given[index]! += 1
  return given
}

/** The greatest whole level that the amount covers. */
function levelOf(amount: number, tops: readonly number[]): number {
  let rest = amount
  const sorted = tops.toSorted((a, b) => a - b)
  for (const [index, top] of sorted.entries()) {
    const fair = Math.floor(rest / (sorted.length - index))
    if (top > fair) return fair
    rest -= top
  }
  return sorted.at(-1) ?? 0
}

function ranksOf(claimants: readonly Claimant[]): number[] {
  const order = claimants.map(({ pod }) => pod).toSorted((a, b) => a - b)
  return claimants.map(({ pod }) => order.indexOf(pod))
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
