// Finds tasks whose shape no live pod runs while another shape of their machine is run. This happens after a deploy that
// changed the names of transitions. The leader looks for them every beat, one step at a time. Guarantees:
//   no task is stranded silently: it continues in the newest running shape that it fits, or it is held with the reason
//   `shape` until a pod that knows its shape comes, or an operator acts
//   a task that a pod has claimed, that waits for its time, or that is dead is left alone until it is ready
//   a write checks the leader's term: under an older term it changes nothing
//   a step ends after some hundreds of rows, and the next one begins at another track: no track waits until another is done
//   tasks that stay held are read once after each change of the running shapes, and again a minute after all were read
//
//   the track                                   its ready tasks and suspects      tasks held for their shape
//   is run by a live pod                        are claimed there                 ready, at the place they had
//   is not run, but another shape that the      move to that shape                ready, in that shape
//   task fits at its position
//   is not run; other shapes are, but no fit    held: `shape`                     stay held
//   is not run, nor is any other shape          unchanged: nobody runs this machine now
// A suspect is a task whose pods died twice in a row. If it was held, it is a suspect again when it is released, at its time.
import type { Clock } from '../lib/clock.ts'
import { columnsOf } from '../store/columns.ts'
import type { Outcome, Query, Transactions } from '../store/database.ts'
import { IS_LEADER, type Term } from '../store/leader.ts'
import { PLAIN } from './plan.ts'
import { findKeptPositions } from './shape-fit.ts'

/** How many tasks were moved in which way, and whether nothing is left to do. */
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
  /** Whether no pod runs it and it has ready tasks or suspects. */
  readonly isOpen: boolean
  /** Whether tasks are held for its shape. */
  readonly isHeld: boolean
}
/** The track on which a task at this position continues, if any, and whether its next transition is another one there. */
type Heir = { readonly position: number; readonly track: number | null; readonly isOther: boolean }

const STEP = 500
const LOOK_AGAIN_MS = 60_000 // rows that somebody had locked were skipped

// Looks for one row in the order of an index: for an `exists`, the planner might read all tracks at once, or the table. A pod of
// an older release does not say which tracks it claims: it runs tasks with one handler, and may not have written their names.
// `offset 0` keeps the planner from evaluating anything twice.
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

// $3: the track. $4, $5, $6: its heirs, one for each position. Attempts are counted per transition: if the next one is another,
// none was made.
const HEIRS = 'unnest($4::int[], $5::int[], $6::boolean[]) h(position, track, is_other)'
const SPENT = 'case when h.is_other then 0 else t.spent end'

// A held task must not forget that it lost its pods. A task that has lost a pod has an error, and it is noted there.
const NOTED = `
  (t.error - 'was') || case when t.reason in ('pod_lost', 'suspect') then jsonb_build_object('was', t.reason) else '{}' end`
const WAS = `t.error ->> 'was'`

// Every row that is read leaves the ready or suspect tasks of the orphan, to an heir or to be held. So the next step begins
// behind it. Rows are updated by ctid, which stays valid because they are locked.
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

// $7: the id to start after. A task without an heir is read and stays held.
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

/** How far the held tasks of a track were read. `endedMs` is null until all were read. */
type Look = { readonly upTo: string; readonly endedMs: number | null }
/** What a step passes to the next: how far it came while the same shapes are running, and at which track it ended. */
type Memory = { readonly of: string; readonly looks: ReadonlyMap<number, Look>; readonly behind: number }

type Deps = { readonly database: Transactions; readonly clock: Pick<Clock, 'monotonicMs'> }

/** Each call takes one step. */
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

/** Where to continue. Undefined if all were read recently. */
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

/** Where a task of the track continues, by its position: on the track itself if that is run, otherwise in the newest shape that
 *  it fits. Undefined if no pod runs the machine. */
function heirsOf(track: Track, run: readonly Track[]): readonly Heir[] | undefined {
  const { queue, machine, shape, names } = track
  const candidates = track.isRun
    ? [track]
    : run.filter((other) => other.queue === queue && other.machine === machine)
  if (candidates.length === 0) return undefined
  // A task with one handler has no transition name that a machine could share.
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
