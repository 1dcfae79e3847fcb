// How a capacity is divided among pods, and how shares move from one to another. Pure.
//   divide    what each should have: one each, the rest by what they want, the greatest wants cut to one level; what nobody
//             wants is spread evenly, for bursts. With fewer permits than pods they go round: one moves on every 30 s.
//   handOver  what each gets now. Who should have less has it at once; who should have more gets it from what is certainly
//             free, as what a pod acts on may be its share of before: the shares in force never sum above the capacity (T1).
//             Calls in flight above a share that has shrunk are not cancelled: until they end, nobody has what they take.

type Claimant = {
  readonly pod: number
  readonly want: number
  readonly most: number
  /** What it has now. */
  readonly share: number
}

const TURN_MS = 30_000

/** What each should have, in the order of the claimants. */
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
  /** The most that it may act on now. */
  readonly inForce: number
  /** How many of its calls are in flight. */
  readonly held: number
  readonly target: number
}

/** In the order of the moves. */
export function handOver(capacity: number, moves: readonly Move[]): number[] {
  const kept = keep(capacity, moves)
  const taken = sum(moves.map(({ inForce, held }, index) => Math.max(inForce, held, kept[index]!)))
  const lacks = moves.map(({ target }, index) => target - kept[index]!)
  const room = Math.max(0, Math.min(capacity - taken, sum(lacks)))
  const unmet = fill(sum(lacks) - room, lacks, moves) // the largest lack is met first
  return kept.map((share, index) => share + lacks[index]! - unmet[index]!)
}

/** What each has of its share, and should have: less than that where calls of others take it. */
function keep(capacity: number, moves: readonly Move[]): number[] {
  const kept = moves.map(({ share, target }) => Math.min(share, target))
  const unused = moves.map(({ held }, index) => Math.max(0, kept[index]! - held))
  const taken = sum(moves.map(({ held }, index) => Math.max(held, kept[index]!)))
  const given = fill(Math.max(0, Math.min(sum(unused), taken - capacity)), unused, moves)
  return kept.map((share, index) => share - given[index]!)
}

/** As evenly as their tops allow; what does not go evenly, to those who have more already: shares stay where they are. */
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

/** The greatest whole level that the amount suffices for. */
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
