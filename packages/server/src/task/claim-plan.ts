// Plans what a pod asks the queue for: which tracks, and how many tasks of each group of tracks. Tracks whose attempts call
// the same downstream form a group, which is limited by the downstream's free room. Tracks that call none form a group that
// only the size of the claim limits. A group without room is not asked for: its tasks stay ready for a pod that has room, and
// everybody can see them. Pure.
import type { ClaimAsk, Claim } from './claim.ts'
import type { Runner } from './runner.ts'

type Runners = ReadonlyMap<number, Pick<Runner, 'downstream'>>

/** `isWhole`: no track was left out. */
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

/** For each group that was asked for: whether it got as many tasks as it had room for. */
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
