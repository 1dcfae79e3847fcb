// What a pod asks the queue for: tracks, and how many of each group of them. Tracks whose attempts call one downstream are
// a group, as large as its room there; those that call none are a group that nothing but the claim's size limits. What has
// no room is not asked for: it stays ready, for a pod that has, and for everybody to see. Pure.
import type { Ask, Claim } from './claim.ts'
import type { Runner } from './runner.ts'

type Runners = ReadonlyMap<number, Pick<Runner, 'downstream'>>

export function asksOf(runners: Runners, most: number, roomAt: (key: string) => number): Ask[] {
  const groups = new Map<string | undefined, { readonly group: number; readonly room: number }>()
  for (const { downstream: key } of runners.values()) {
    if (groups.has(key)) continue
    const room = key === undefined ? most : Math.min(most, roomAt(key))
    groups.set(key, { group: groups.size, room })
  }
  return Array.from(runners, ([track, { downstream }]) => ({ track, ...groups.get(downstream)! })).filter(
    ({ room }) => room > 0,
  )
}

/** Those that were asked for, each with whether it got all that it had room for. */
export function answersTo(
  asks: readonly Ask[],
  claims: readonly Claim[],
): { readonly tracks: readonly number[]; readonly isFull: boolean }[] {
  return [...Map.groupBy(asks, ({ group }) => group).values()].map((group) => {
    const tracks = group.map(({ track }) => track)
    const count = claims.filter(({ track }) => tracks.includes(track)).length
    return { tracks, isFull: count >= group[0]!.room }
  })
}
