// Tasks of shapes that no live pod runs, while another shape of their machine is run: after a deploy that changed the names
// of transitions. The leader looks for them every beat, a step at a time. Guarantees:
//   no task is stranded in silence: it goes on in the newest shape that is run and into which it fits, or it is held, with
//   reason `shape`, until a pod that knows its shape comes, or an operator does something
//   a task that a pod has claimed, that waits for its time, or that is dead is left alone until it is ready
//   a write names the leader's term: under an older one it changes nothing
//   a step ends once it has read some hundreds of rows, and the next begins at another track: none waits for the whole of another
//   what is held and stays so is read once for every change of what is run, and a minute after it was read whole
//
//   the track                                   its ready tasks and suspects      those held for their shape
//   is run by a live pod                        are claimed there                 ready, at the place they had
//   is not, but another shape is, into which    become that shape's               ready, as that shape's
//   the task fits at its position
//   is not, but another shape is                held: `shape`                     stay so
//   is not, and no other shape is               as they are: nobody runs this machine now
// A suspect that was held is one again when it is released, at its time.
import type { Clock } from '../lib/clock.ts'
import { columnsOf } from '../store/columns.ts'
import type { Outcome, Query, Transactions } from '../store/database.ts'
import { IS_LEADER, type Term } from '../store/leader.ts'
import { PLAIN } from './plan.ts'
import { findKeptPositions } from './shape-fit.ts'

/** What was done to how many, and whether there is nothing more to do. */
type Moved = {
  readonly released: number
  readonly continued: number
  readonly held: number
  readonly isAll: boolean
}

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
const LOOK_AGAIN_MS = 60_000 // a row that somebody had locked was passed over

// One row in the order of an index is looked for: an `exists` the planner may answer for all tracks at once, or from the
// table. A pod of an older release does not say what it claims: it runs tasks of one handler, whose names it may not have
// written. Offset 0, so that nothing is asked twice.
const has = (condition: string, order: string) =>
  `coalesce((select true from fleetline.tasks t where t.track = k.id and ${condition} order by ${order} limit 1), false)`
export const TRACKS = `
  select * from (
    select k.id, k.queue, k.machine, k.shape, coalesce(s.names, array['${PLAIN.transition}']) as names, r."isRun",
           not r."isRun" and (
             ${has(`t.state = 'ready'`, 't.priority desc, t.place')}
             or ${has(`t.state = 'waiting' and t.reason = 'suspect'`, 't.run_at')}) as "isOpen",
           ${has(`t.state = 'held' and t.reason = 'shape'`, 't.id')} as "isHeld"
      from fleetline.tracks k
      left join fleetline.shapes s on s.machine = k.machine and s.shape = k.shape
     cross join lateral (
       select exists (select from fleetline.pods p
                       where p.state = 'live' and (k.id = any (p.tracks) or p.tracks is null and k.shape = '')) as "isRun") r
     where not k.is_internal offset 0) k
   where k."isRun" or k."isOpen" or k."isHeld"
   order by k.id desc`

// $3 the track · $4, $5, $6 its heirs, one a position. Attempts are counted for a transition: of another one, none was made.
const HEIRS = 'unnest($4::int[], $5::int[], $6::boolean[]) h(position, track, is_other)'
const SPENT = 'case when h.is_other then 0 else t.spent end'

// A loss is not forgotten while its task is held. Who has lost a pod has an error, where that is noted.
const NOTED = `
  (t.error - 'was') || case when t.reason in ('pod_lost', 'suspect') then jsonb_build_object('was', t.reason) else '{}' end`
const WAS = `t.error ->> 'was'`

// Whatever is read leaves the orphan's line, to an heir or to those that are held: the next step begins behind it. Rows are
// taken by ctid, valid because their locks are held.
export const MOVE = `
  with ready as (
    select ctid as tid from fleetline.tasks
     where track = $3 and state = 'ready' and ${IS_LEADER}
     order by priority desc, place limit ${STEP} for update skip locked),
  suspects as (
    select ctid as tid from fleetline.tasks
     where track = $3 and state = 'waiting' and reason = 'suspect' and ${IS_LEADER}
     order by run_at limit ${STEP} for update skip locked)
  update fleetline.tasks t
     set track = coalesce(h.track, t.track), spent = ${SPENT},
         state = case when h.track is null then 'held' else t.state end,
         reason = case when h.track is null then 'shape' else t.reason end,
         error = case when h.track is null then ${NOTED} else t.error end
    from ${HEIRS}
   where t.ctid = any (array(select tid from ready union all select tid from suspects)) and h.position = t.position
  returning h.track is not null as "hasHeir"`

// $7 behind which id. Who has no heir is read, and stays.
export const RELEASE = `
  with looked as materialized (
    select ctid as tid, id from fleetline.tasks
     where track = $3 and state = 'held' and reason = 'shape' and id > $7 and ${IS_LEADER}
     order by id limit ${STEP} for update skip locked),
  released as (
    update fleetline.tasks t
       set track = h.track, spent = ${SPENT}, reason = ${WAS}, error = t.error - 'was',
           run_at = case when ${WAS} = 'suspect' then t.run_at else now() end,
           state = (case when ${WAS} = 'suspect' then 'waiting' else 'ready' end)::fleetline.task_state
      from ${HEIRS}
     where t.ctid = any (array(select tid from looked)) and h.position = t.position
    returning t.id)
  select (select count(*)::int from looked) as looked, (select max(id::text) from looked) as "upTo",
         (select count(*)::int from released) as released`

const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

/** How far what is held on a track was looked at; `endedMs` is null until it is whole. */
type Look = { readonly upTo: string; readonly endedMs: number | null }
/** What a step leaves to the next: how far it came while the same shapes are run, and at which track. */
type Memory = { readonly of: string; readonly looks: ReadonlyMap<number, Look>; readonly behind: number }

type Deps = { readonly database: Transactions; readonly clock: Pick<Clock, 'monotonicMs'> }

/** Takes a step with each call. */
export function createOrphans({ database, clock }: Deps): (term: Term) => Promise<Outcome<Moved>> {
  let memory: Memory = { of: '', looks: new Map(), behind: Infinity }
  return async (term) => {
    const nowMs = clock.monotonicMs()
    const outcome = await database.transaction((query) => takeStep({ query, term, nowMs }, memory))
    if (outcome.type === 'committed') memory = outcome.value.memory
    return outcome
  }
}

type OrphanStep = { readonly query: Query; readonly term: Term; readonly nowMs: number }

async function takeStep(step: OrphanStep, memory: Memory): Promise<Moved & { readonly memory: Memory }> {
  const tracks = await step.query<Track>(TRACKS)
  const run = tracks.filter(({ isRun }) => isRun)
  const of = `${step.term.term}: ${run.map(({ id }) => id).join()}`
  const looks = new Map(memory.of === of ? memory.looks : [])
  const moved = { released: 0, continued: 0, held: 0 }
  let [behind, isAll, read] = [memory.behind, true, 0]
  const turned = [...tracks.filter(({ id }) => id < behind), ...tracks.filter(({ id }) => id >= behind)]
  for (const track of turned) {
    const heirs = heirsOf(track, run)
    if (!heirs) continue
    behind = track.id
    const look = track.isHeld ? nextLook(looks.get(track.id), step.nowMs) : undefined
    if (look) {
      const { looked, upTo, released } = await release(step, { track, heirs, look })
      const isWhole = looked < STEP
      looks.set(track.id, { upTo: upTo ?? look.upTo, endedMs: isWhole ? step.nowMs : null })
      moved.released += released
      read += looked
    }
    if (track.isOpen) {
      const { continued, held } = await move(step, track, heirs)
      moved.continued += continued
      moved.held += held
      read += continued + held
    }
    isAll = read < STEP
    if (!isAll) break
  }
  return { ...moved, isAll, memory: { of, looks, behind } }
}

/** Where to go on; undefined if all was looked at not long ago. */
function nextLook(known: Look | undefined, nowMs: number): Look | undefined {
  const anew = { upTo: BEFORE_ALL, endedMs: null }
  if (known?.endedMs === null) return known
  return known && nowMs - known.endedMs < LOOK_AGAIN_MS ? undefined : anew
}

type HeldTrack = { readonly track: Track; readonly heirs: readonly Heir[]; readonly look: Look }
type Looked = { readonly looked: number; readonly upTo: string | null; readonly released: number }

async function release({ query, term }: OrphanStep, { track, heirs, look }: HeldTrack): Promise<Looked> {
  const some = heirs.filter((heir) => heir.track !== null)
  if (some.length === 0) return { looked: 0, upTo: null, released: 0 }
  const values = [
    term.term,
    term.pod,
    track.id,
    ...columnsOf(some, 'position', 'track', 'isOther'),
    look.upTo,
  ]
  return (await query<Looked>(RELEASE, values))[0]!
}

async function move(
  { query, term }: OrphanStep,
  { id }: Track,
  heirs: readonly Heir[],
): Promise<{ readonly continued: number; readonly held: number }> {
  const rows = await query<{ hasHeir: boolean }>(MOVE, [
    term.term,
    term.pod,
    id,
    ...columnsOf(heirs, 'position', 'track', 'isOther'),
  ])
  const continued = rows.filter(({ hasHeir }) => hasHeir).length
  return { continued, held: rows.length - continued }
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
    const heir = alike.find((other) => findKeptPositions(names, other.names).includes(position))
    return {
      position,
      track: heir?.id ?? null,
      isOther: !!heir && heir.names[position] !== names[position],
    }
  })
}
