// What a pod takes from the queue: up to its free slots, the highest priority first, by place within it. Guarantees:
//   Q2  a task is claimed by one pod: rows are taken under their locks, and each claim is an attempt of its own
//   Q6  of suspects, tasks whose pods died twice in a row, it takes no more than it was told
//   a claim reads ready rows of its tracks, and suspects that are due, in the order of an index, and no more of them than
//   it takes
//   a pod that drains, or was buried, takes nothing
import type { Query } from '../store/database.ts'

/** By the names of transitions; `at` is of the database's clock. */
export type Carry = Readonly<Record<string, Recorded>>
export type Recorded = {
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

export type Wish = {
  readonly pod: number
  readonly tracks: readonly number[]
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
export const CLAIM = `
  with suspects as (
    select s.tid
      from unnest($6::int[]) k(track)
     cross join lateral (
       select ctid as tid from fleetline.tasks
        where track = k.track and state = 'waiting' and reason = 'suspect' and run_at <= now()
        order by run_at limit $5 for update skip locked) s
     where exists (select from fleetline.pods where id = $1 and state = 'live')
     limit $5),
  picked as (
    select tid from suspects
    union all
    select r.tid
      from unnest($2::int[], $3::smallint[]) w(track, priority)
     cross join lateral (
       select ctid as tid from fleetline.tasks
        where track = w.track and priority = w.priority and state = 'ready'
        order by place limit $4 for update skip locked) r
     where exists (select from fleetline.pods where id = $1 and state = 'live')
     limit $4)
  update fleetline.tasks t
     set state = 'claimed', pod = $1, attempt = t.attempt + 1, spent = t.spent + 1, claimed_at = clock_timestamp()
   where t.ctid = any (array(select tid from picked))
  returning t.id, t.track, t.tenant, t.priority, t.place, t.attempt, t.spent, t.max_attempts as "maxAttempts", t.reason,
            t.input, t.position, t.carry, (extract(epoch from t.claimed_at - greatest(t.run_at, t.created_at)) * 1000)::float8 as "waitedMs"`

const HELD = `
  select id, attempt, track from fleetline.tasks where pod = $1 and state = 'claimed'`

/** In the order in which to start them. */
export async function claim(query: Query, { pod, tracks, most, suspects, turn }: Wish): Promise<Claim[]> {
  const first = Math.floor(turn * tracks.length)
  const turned = [...tracks.slice(first), ...tracks.slice(0, first)]
  const windows = PRIORITIES.flatMap((priority) => turned.map((track) => ({ track, priority })))
  const rows = await query<Claim & { place: string }>(CLAIM, [
    pod,
    windows.map(({ track }) => track),
    windows.map(({ priority }) => priority),
    most,
    Math.min(most, suspects),
    turned,
  ])
  return rows.toSorted((a, b) => b.priority - a.priority || Number(BigInt(a.place) - BigInt(b.place)))
}

/** What PostgreSQL says that a pod holds: after a claim without an answer it may be more than the pod knows of. */
export async function heldBy(
  query: Query,
  pod: number,
): Promise<readonly Pick<Claim, 'id' | 'attempt' | 'track'>[]> {
  return query(HELD, [pod])
}
