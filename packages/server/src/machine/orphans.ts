// Tasks of shapes that no live pod runs, while another shape of their machine is run: after a deploy that changed the names
// of transitions. The leader looks for them every beat, a step at a time. Guarantees:
//   no task is stranded in silence: it goes on in the newest shape that is run and into which it fits, or it is held, with
//   reason `shape`, until a pod that knows its shape comes, or an operator does something
//   a task that a pod has claimed, that waits, or that is dead is left alone until it is ready
//   a write names the leader's term: under an older one it changes nothing
//
//   the track                                   its ready and held tasks
//   is run by a live pod                        those that are held for their shape become ready, at the place they had
//   is not, but another shape is, into which    become that shape's, and ready
//   the task fits at its position
//   is not, but another shape is                held: `shape`
//   is not, and no other shape is               as they are: nobody runs this machine now
import type { Query } from '../store/database.ts'
import { positionsKept } from './continue.ts'

/** Under which a leader writes. */
export type Term = { readonly term: number; readonly pod: number }

/** What was done to how many. */
export type Moved = { readonly released: number; readonly continued: number; readonly held: number }

type Track = {
  readonly id: number
  readonly queue: number
  readonly machine: string
  readonly names: readonly string[]
  readonly isRun: boolean
}

const STEP = 500

// A pod of an older release does not say what it claims: it runs tasks of one handler.
const TRACKS = `
  select k.id, k.queue, k.machine, s.names,
         exists (select from fleetline.pods p
                  where p.state = 'live' and (k.id = any (p.tracks) or p.tracks is null and k.shape = '')) as "isRun"
    from fleetline.tracks k join fleetline.shapes s on s.machine = k.machine and s.shape = k.shape
   where k.max_attempts < 32767
   order by k.id desc`

const LEADS = 'exists (select from fleetline.leader l where l.term = $1 and l.pod = $2)'

// $3 the track · $4 at which positions; null: at all.
const RELEASE = `
  update fleetline.tasks set state = 'ready', reason = null
   where id = any (array(
     select id from fleetline.tasks
      where track = $3 and state = 'held' and reason = 'shape' and ($4::int[] is null or position = any ($4)) and ${LEADS}
      limit ${STEP} for update skip locked))
  returning id`

// $3 the track · $4 the one that they get · $5 at which positions. Suspects are never ready, and go on as such. Two walks,
// each along the index of its state.
const CONTINUE = `
  with ready as (
    select id from fleetline.tasks
     where track = $3 and state = 'ready' and position = any ($5::int[]) and ${LEADS}
     limit ${STEP} for update skip locked),
  suspects as (
    select id from fleetline.tasks
     where track = $3 and state = 'waiting' and reason = 'suspect' and position = any ($5::int[]) and ${LEADS}
     limit ${STEP} for update skip locked)
  update fleetline.tasks t set track = $4
   where t.id = any (array(select id from ready union all select id from suspects))
  returning t.id`

// $3 the track · $4 at which positions not.
const HOLD = `
  update fleetline.tasks set state = 'held', reason = 'shape'
   where id = any (array(
     select id from fleetline.tasks
      where track = $3 and state = 'ready' and not position = any ($4::int[]) and ${LEADS}
      limit ${STEP} for update skip locked))
  returning id`

/** One step, in the leader's transaction; there may be more to do if it moved any. */
export function createOrphans(): (query: Query, term: Term) => Promise<Moved> {
  let seen = '' // under which all that is held was looked at: it is not looked at again until a shape comes or goes
  return async (query, { term, pod }) => {
    const count = async (text: string, ...values: readonly unknown[]) =>
      (await query(text, [term, pod, ...values])).length
    const tracks = await query<Track>(TRACKS)
    const run = tracks.filter(({ isRun }) => isRun)
    const picture = run.map(({ id }) => id).join()
    const moved = { released: 0, continued: 0, held: 0 }
    const isNew = picture !== seen
    if (isNew) for (const { id } of run) moved.released += await count(RELEASE, id, null)
    for (const orphan of tracks.filter(({ isRun }) => !isRun)) {
      const heirs = heirsOf(orphan, run)
      if (!heirs) continue
      const kept = heirs.flatMap(({ positions }) => positions)
      if (isNew) moved.released += await count(RELEASE, orphan.id, kept)
      for (const { id, positions } of heirs)
        moved.continued += await count(CONTINUE, orphan.id, id, positions)
      moved.held += await count(HOLD, orphan.id, kept)
    }
    if (moved.released === 0) seen = picture
    return moved
  }
}

type Heir = { readonly id: number; readonly positions: readonly number[] }

/** Who goes on with a task of the orphan, by its position: the newest shape into which it fits. Undefined if its machine is
 *  not run at all. */
function heirsOf({ queue, machine, names }: Track, run: readonly Track[]): Heir[] | undefined {
  const others = run.filter((track) => track.queue === queue && track.machine === machine)
  if (others.length === 0) return undefined
  const taken = new Set<number>()
  return others.flatMap((track) => {
    const positions = positionsKept(names, track.names).filter((position) => !taken.has(position))
    positions.forEach((position) => taken.add(position))
    return positions.length === 0 ? [] : [{ id: track.id, positions }]
  })
}
