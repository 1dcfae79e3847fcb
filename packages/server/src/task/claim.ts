// Takes tasks from the queue: as many as the pod has free slots, the highest priority first, then by place. A *suspect* is a
// task whose pods died twice in a row. Guarantees:
//   Q2  one pod claims a task: rows are taken under their locks, and each claim is a new attempt
//   Q6  it takes no more suspects than the caller allows
//   it takes no more tasks of a group of tracks than there is room for (`asks`)
//   a claim reads ready rows of its tracks, and suspects that are due, in the order of an index. It reads no more of them
//   than it takes. It may read more of a group with little room: that room once for each of its windows (track, priority)
//   a pod that drains, or that the leader has counted as dead, takes nothing
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'

/** The outputs of recorded transitions, by name. `at` is by the database's clock. */
export type Carry = Readonly<Record<string, Recorded>>
type Recorded = {
  readonly value: unknown
  readonly at: string
  readonly attempt: number
  readonly ms: number
}

export type Claim = {
  readonly id: string
  readonly track: number
  readonly tenant: number
  readonly priority: number
  readonly attempt: number
  /** How many attempts count, including this one. */
  readonly spent: number
  readonly maxAttempts: number
  readonly reason: string | null
  readonly input: unknown
  /** How many transitions are recorded; `carry` has their outputs. */
  readonly position: number
  readonly carry: Carry | null
  /** From when it could run until it was claimed, by the database's clock. */
  readonly waitedMs: number
}

/** At most `room` tasks are taken from the tracks of one group. */
export type ClaimAsk = { readonly track: number; readonly group: number; readonly room: number }

type Wish = {
  readonly pod: number
  readonly asks: readonly ClaimAsk[]
  readonly most: number
  /** How many of them may be suspects. */
  readonly suspects: number
  /** Selects which of several equal tracks is read first: from 0 to below 1. */
  readonly turn: number
}

const PRIORITIES = [7, 6, 5, 4, 3, 2, 1, 0]

// Reads windows (track, priority) one after the other until there are enough rows. One window is one walk along the index,
// and only rows that are picked are locked. Suspects come first, since they would otherwise wait behind any backlog. They are
// never ready: a claim takes them from the waiting tasks when their time has come. Rows are updated by ctid, which is valid
// because their locks are held.
const claimOf = (taken: string) => `
  with suspects as (
    select s.tid, k.grp, k.room
      from unnest($1::int[], $2::int[], $3::int[]) k(track, grp, room)
     cross join lateral (
       select ctid as tid from fleetline.tasks
        where track = k.track and state = 'waiting' and reason = 'suspect' and run_at <= now()
        order by run_at limit $4 for update skip locked) s
     where exists (select from fleetline.pods where id = $5 and state = 'live')
     limit $4),
  picked as (
    select tid, grp, room, 8 as priority, 0 as place from suspects
    union all
    select r.tid, w.grp, w.room, w.priority, r.place
      from unnest($6::int[], $7::smallint[], $8::int[], $9::int[]) w(track, priority, grp, room)
     cross join lateral (
       select ctid as tid, place from fleetline.tasks
        where track = w.track and priority = w.priority and state = 'ready'
        order by place limit w.room for update skip locked) r
     where exists (select from fleetline.pods where id = $5 and state = 'live')
     limit $10)
  update fleetline.tasks t
     set state = 'claimed', pod = $5, attempt = t.attempt + 1, spent = t.spent + 1, claimed_at = clock_timestamp()
   where t.ctid = any (array(${taken}))
  returning t.id, t.track, t.tenant, t.priority, t.place, t.attempt, t.spent, t.max_attempts as "maxAttempts", t.reason,
            t.input, t.position, t.carry, (extract(epoch from t.claimed_at - greatest(t.run_at, t.created_at)) * 1000)::float8 as "waitedMs",
            (select count(*)::int from picked) as looked`

export const CLAIM: string = claimOf('select tid from picked')

// A window stops at the room of its group, but a group may have several windows. Surplus rows are left unchanged, and
// unlocked when this transaction ends.
const CLAIM_WITHIN: string = claimOf(`
    select tid from (
      select tid, room, row_number() over (partition by grp order by priority desc, place) as n from picked) p
     where n <= room`)

const HELD = `
  select id, attempt, track from fleetline.tasks where pod = $1 and state = 'claimed'`

/** Returns the claims in the order in which to start them. */
export async function claim(query: Query, wish: Wish): Promise<Claim[]> {
  const { asks, most } = wish
  const { claims, looked } = await take(query, wish)
  if (looked < most || claims.length === most) return claims
  // Surplus rows have used up this read, so read again without the groups that are full now.
  const isOf = (ask: ClaimAsk) =>
    new Set(asks.filter(({ group }) => group === ask.group).map(({ track }) => track))
  const left = asks.map((ask) => {
    const tracks = isOf(ask)
    return { ...ask, room: ask.room - claims.filter(({ track }) => tracks.has(track)).length }
  })
  const open = left.filter(({ room }) => room > 0)
  if (open.length === 0) return claims
  const more = await claim(query, {
    ...wish,
    asks: open,
    most: most - claims.length,
    suspects: wish.suspects - claims.filter(({ reason }) => reason === 'suspect').length,
  })
  return [...claims, ...more]
}

async function take(
  query: Query,
  { pod, asks, most, suspects, turn }: Wish,
): Promise<{ readonly claims: Claim[]; readonly looked: number }> {
  const first = Math.floor(turn * asks.length)
  const turned = [...asks.slice(first), ...asks.slice(0, first)]
  const windows = PRIORITIES.flatMap((priority) => turned.map((ask) => ({ ...ask, priority })))
  const text = asks.every(({ room }) => room >= most) ? CLAIM : CLAIM_WITHIN
  const rows = await query<Claim & { readonly place: string; readonly looked: number }>(text, [
    ...columnsOf(turned, 'track', 'group', 'room'),
    Math.min(most, suspects),
    pod,
    ...columnsOf(windows, 'track', 'priority', 'group', 'room'),
    most,
  ])
  const claims = rows.toSorted((a, b) => b.priority - a.priority || Number(BigInt(a.place) - BigInt(b.place)))
  return { claims, looked: rows[0]?.looked ?? 0 }
}

/** The claims that a pod holds according to PostgreSQL. After a claim without an answer, the pod may not know all of them. */
export async function readHeldClaims(
  query: Query,
  pod: number,
): Promise<readonly Pick<Claim, 'id' | 'attempt' | 'track'>[]> {
  return query(HELD, [pod])
}
