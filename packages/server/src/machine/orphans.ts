// Tasks of shapes that no live pod runs, while another shape of their machine is run: after a deploy that changed the names
// of transitions. The leader looks for them every beat, a step at a time. Guarantees:
//   no task is stranded in silence: it goes on in the newest shape that is run and into which it fits, or it is held, with
//   reason `shape`, until a pod that knows its shape comes, or an operator does something
//   a task that a pod has claimed, that waits for its time, or that is dead is left alone until it is ready
//   a write names the leader's term: under an older one it changes nothing
//   a step reads no more rows than it moves, but for those that are held: these are read once for every change of what is
//   run, and once a minute
//
//   the track                                   its ready tasks and suspects      those held for their shape
//   is run by a live pod                        are claimed there                 ready, at the place they had
//   is not, but another shape is, into which    become that shape's               ready, as that shape's
//   the task fits at its position
//   is not, but another shape is                held: `shape`                     stay so
//   is not, and no other shape is               as they are: nobody runs this machine now
import type { Clock } from '../lib/clock.ts'
import type { Query } from '../store/database.ts'
import { positionsKept } from './continue.ts'
import { PLAIN } from './plan.ts'

/** Under which a leader writes. */
export type Term = { readonly term: number; readonly pod: number }

/** What was done to how many. */
export type Moved = { released: number; continued: number; held: number }

type Track = {
  readonly id: number
  readonly queue: number
  readonly machine: string
  readonly shape: string
  readonly names: readonly string[]
  readonly isRun: boolean
  /** Whether it is an orphan with tasks that are ready, or suspects. */
  readonly isOpen: boolean
  /** Whether tasks are held for its shape. */
  readonly isHeld: boolean
}
/** Where a task goes on that stands at a position, if anywhere, and whether its next transition is another one there. */
type Heir = { readonly position: number; readonly track: number | null; readonly isOther: boolean }

const STEP = 500
const LOOK_AGAIN_MS = 60_000 // a row that somebody had locked was passed over, a step may not have been committed

// A pod of an older release does not say what it claims: it runs tasks of one handler, whose names it may not have written.
const TRACKS = `
  select * from (
    select k.id, k.queue, k.machine, k.shape, coalesce(s.names, array['${PLAIN.transition}']) as names, r."isRun",
           not r."isRun" and (
             exists (select from fleetline.tasks t where t.track = k.id and t.state = 'ready')
             or exists (select from fleetline.tasks t where t.track = k.id and t.state = 'waiting' and t.reason = 'suspect'))
             as "isOpen",
           exists (select from fleetline.tasks t where t.track = k.id and t.state = 'held' and t.reason = 'shape') as "isHeld"
      from fleetline.tracks k
      left join fleetline.shapes s on s.machine = k.machine and s.shape = k.shape
     cross join lateral (
       select exists (select from fleetline.pods p
                       where p.state = 'live' and (k.id = any (p.tracks) or p.tracks is null and k.shape = '')) as "isRun") r
     where k.max_attempts < 32767) k
   where k."isRun" or k."isOpen" or k."isHeld"
   order by k.id desc`

const LEADS = 'exists (select from fleetline.leader l where l.term = $1 and l.pod = $2)'
// $3 the track · $4, $5, $6 its heirs, one a position. Attempts are counted for a transition: of another one, none was made.
const HEIRS = 'unnest($4::int[], $5::int[], $6::boolean[]) h(position, track, is_other)'
const SPENT = 'case when h.is_other then 0 else t.spent end'

// Whatever is read leaves the orphan's line, to an heir or to those that are held: the next step begins behind it. Rows are
// taken by ctid, valid because their locks are held.
export const MOVE = `
  with ready as (
    select ctid as tid from fleetline.tasks
     where track = $3 and state = 'ready' and ${LEADS}
     order by priority desc, place limit ${STEP} for update skip locked),
  suspects as (
    select ctid as tid from fleetline.tasks
     where track = $3 and state = 'waiting' and reason = 'suspect' and ${LEADS}
     order by run_at limit ${STEP} for update skip locked)
  update fleetline.tasks t
     set track = coalesce(h.track, t.track), spent = ${SPENT},
         state = case when h.track is null then 'held' else t.state end,
         reason = case when h.track is null then 'shape' else t.reason end
    from ${HEIRS}
   where t.ctid = any (array(select tid from ready union all select tid from suspects)) and h.position = t.position
  returning h.track is not null as "hasHeir"`

// $7 behind which. What one held for its shape was before is known by its error: lost with its pod, it stays one step from
// being a suspect.
export const RELEASE = `
  with looked as (
    select id, ctid as tid from fleetline.tasks
     where track = $3 and state = 'held' and reason = 'shape' and id > $7 and ${LEADS}
     order by id limit ${STEP} for update skip locked),
  moved as (
    update fleetline.tasks t
       set state = 'ready', track = h.track, spent = ${SPENT}, run_at = now(),
           reason = case when t.error ->> 'code' = 'pod_lost' then 'pod_lost' end
      from ${HEIRS}
     where t.ctid = any (array(select tid from looked)) and h.position = t.position and h.track is not null
    returning t.id)
  select (select count(*)::int from moved) as count, (select id from looked order by id desc limit 1) as last`

const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'
const ALL_LOOKED_AT = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** How far all that is held was looked at, while the same shapes are run: by tracks, up to which id. */
type Look = { readonly of: string; readonly sinceMs: number; readonly upTo: Map<number, string> }

/** One step, in the leader's transaction; there is more to do if it says so. */
export function createOrphans(
  clock: Pick<Clock, 'monotonicMs'>,
): (query: Query, term: Term) => Promise<Moved & { readonly isAll: boolean }> {
  let look: Look = { of: '', sinceMs: -Infinity, upTo: new Map() }
  return async (query, term) => {
    const tracks = await query<Track>(TRACKS)
    const run = tracks.filter(({ isRun }) => isRun)
    const of = `${term.term}: ${run.map(({ id }) => id).join()}`
    const nowMs = clock.monotonicMs()
    if (look.of !== of || nowMs - look.sinceMs >= LOOK_AGAIN_MS)
      look = { of, sinceMs: nowMs, upTo: new Map() }
    const moved = { released: 0, continued: 0, held: 0 }
    for (const track of tracks) {
      const heirs = heirsOf(track, run)
      if (!heirs) continue
      const [positions, next] = [heirs.map((heir) => heir.position), heirs.map((heir) => heir.track)]
      const values = [term.term, term.pod, track.id, positions, next, heirs.map((heir) => heir.isOther)]
      const isAll = await release(query, { track, values, look, moved })
      if (!isAll || (track.isOpen && (await move(query, values, moved)))) return { ...moved, isAll: false }
    }
    return { ...moved, isAll: true }
  }
}

type Releasing = {
  readonly track: Track
  readonly values: readonly unknown[]
  readonly look: Look
  readonly moved: Moved
}

/** Whether all of them are looked at. */
async function release(query: Query, { track, values, look, moved }: Releasing): Promise<boolean> {
  const upTo = look.upTo.get(track.id) ?? BEFORE_ALL
  if (!track.isHeld || upTo === ALL_LOOKED_AT) return true
  const [row] = await query<{ count: number; last: string | null }>(RELEASE, [...values, upTo])
  moved.released += row?.count ?? 0
  look.upTo.set(track.id, row?.last ?? ALL_LOOKED_AT)
  return !row?.last
}

/** Whether there may be more. */
async function move(query: Query, values: readonly unknown[], moved: Moved): Promise<boolean> {
  const rows = await query<{ hasHeir: boolean }>(MOVE, values)
  const continued = rows.filter(({ hasHeir }) => hasHeir).length
  moved.continued += continued
  moved.held += rows.length - continued
  return rows.length > 0
}

/** Who goes on with a task of the track, by its position: the track itself if it is run, else the newest shape into which it
 *  fits. Undefined if its machine is not run at all. */
function heirsOf(track: Track, run: readonly Track[]): readonly Heir[] | undefined {
  const { queue, machine, shape, names } = track
  const candidates = track.isRun
    ? [track]
    : run.filter((other) => other.queue === queue && other.machine === machine)
  if (candidates.length === 0) return undefined
  // What a task of one handler runs has no name that a machine could share.
  const alike = candidates.filter((other) => (other.shape === PLAIN.shape) === (shape === PLAIN.shape))
  return [...names.keys(), names.length].map((position) => {
    const heir = alike.find((other) => positionsKept(names, other.names).includes(position))
    return { position, track: heir?.id ?? null, isOther: !!heir && heir.names[position] !== names[position] }
  })
}
