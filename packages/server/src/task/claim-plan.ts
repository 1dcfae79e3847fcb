// What a pod asks the queue for: tracks, and how many of each group of them. Tracks whose attempts call one downstream are
// a group, as large as its room there; those that call none are a group that nothing but the claim's size limits. What has
// no room is not asked for: it stays ready, for a pod that has, and for everybody to see. Pure.
import type { ClaimAsk, Claim } from './claim.ts'
import type { Runner } from './runner.ts'

type Runners = ReadonlyMap<number, Pick<Runner, 'downstream'>>

/** `isWhole`: none was left out. */
export function planClaim(
  runners: Runners,
  most: number,
  roomAt: (key: string) => number,
): { readonly asks: readonly ClaimAsk[]; readonly isWhole: boolean } {
  const groups = new Map<string | undefined, { readonly group: number; readonly room: number }>()
  for (const { downstream: key } of runners.values()) {
    if (groups.has(key)) continue
    const room = key === undefined ? most : Math.min(most, roomAt(key))
    groups.set(key, { group: groups.size, room })
  }
  const all = Array.from(runners, ([track, { downstream }]) => ({ track, ...groups.get(downstream)! }))
  const asks = all.filter(({ room }) => room > 0)
  return { asks, isWhole: asks.length === all.length }
}

/** Of each group that was asked for: whether it got all that it had room for. */
export function measureFill(
  asks: readonly ClaimAsk[],
  claims: readonly Claim[],
): { readonly track: number; readonly room: number; readonly isFull: boolean }[] {
  return [...Map.groupBy(asks, ({ group }) => group).values()].map((group) => {
    const { track, room } = group[0]!
    const tracks = new Set(group.map((one) => one.track))
    return { track, room, isFull: claims.filter((one) => tracks.has(one.track)).length >= room }
  })
}
