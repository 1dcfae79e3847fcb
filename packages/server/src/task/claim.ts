// What a pod takes from the queue: up to its free slots, the highest priority first, by place within it. Guarantees:
//   Q2  a task is claimed by one pod: rows are taken under their locks, and each claim is an attempt of its own
//   Q6  of suspects, tasks whose pods died twice in a row, it takes no more than it was told
//   it takes no more of a group of tracks than there is room for (`asks`)
//   a claim reads ready rows of its tracks, and suspects that are due, in the order of an index, and no more of them than
//   it takes; of groups with little room as many more as they have windows (track, priority)
//   a pod that drains, or was buried, takes nothing
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'

/** By the names of transitions; `at` is of the database's clock. */
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
  /** Attempts that count, this one too. */
  readonly spent: number
  readonly maxAttempts: number
  readonly reason: string | null
  readonly input: unknown
  /** How many transitions lie behind it, and what came of them. */
  readonly position: number
  readonly carry: Carry | null
  /** From when it could run to when it was claimed, by the clock of the database. */
  readonly waitedMs: number
}

/** Of the tracks of one group no more than `room` are taken. */
export type ClaimAsk = { readonly track: number; readonly group: number; readonly room: number }

type Wish = {
  readonly pod: number
  readonly asks: readonly ClaimAsk[]
  readonly most: number
  /** How many of them may be suspects. */
  readonly suspects: number
  /** Which of equal tracks is looked at first: from 0 to below 1. */
  readonly turn: number
}

const PRIORITIES = [7, 6, 5, 4, 3, 2, 1, 0]

// Windows (track, priority) are read one after the other until there is enough: one window is one walk along the index,
// and only rows that are taken are locked. Suspects come first, or they would wait behind any backlog: they are never
// ready, and are taken from among those that wait when their time has come. Rows are taken by ctid, valid because their
// locks are held.
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

// A window stops at the room of its group, and a group may have several: what is over is left as it was, and unlocked when
// this transaction ends.
const CLAIM_WITHIN: string = claimOf(`
    select tid from (
      select tid, room, row_number() over (partition by grp order by priority desc, place) as n from picked) p
     where n <= room`)

const HELD = `
  select id, attempt, track from fleetline.tasks where pod = $1 and state = 'claimed'`

/** In the order in which to start them. */
export async function claim(query: Query, wish: Wish): Promise<Claim[]> {
  const { asks, most } = wish
  const { claims, looked } = await take(query, wish)
  if (looked < most || claims.length === most) return claims
  // What was over the room of its group has used up the look: groups that are full now are left out of another.
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

/** What PostgreSQL says that a pod holds: after a claim without an answer it may be more than the pod knows of. */
export async function readHeldClaims(
  query: Query,
  pod: number,
): Promise<readonly Pick<Claim, 'id' | 'attempt' | 'track'>[]> {
  return query(HELD, [pod])
}
