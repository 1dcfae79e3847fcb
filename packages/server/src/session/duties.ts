// The leader's duties for sessions:
//   every 5 s   turns that no pod runs, at most 500 of each kind. If the agent of a turn has moved from code to the directory,
//               the turn moves to the track where pods can claim it. If the turn's time limit has passed, it ends as failed.
//   every 5 s   compactions that no pod runs, at most 1,000 on each track and 500 that are due: past their time limit they end as failed
//   every 60 s  chunks that a pod wrote after their turn had ended, of at most 1,000 turns. Nobody reads them; they are deleted.
// Expiry and sweep do not check the leader's term. They are safe whichever pod leads. Turns and compactions expire only if they are
// still current, too old and without a pod; that they are current and without a pod is checked again under the session's lock.
import { parseId } from '@fleetline/protocol'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import { IS_LEADER, type Duty, type Term } from '../store/leader.ts'
import type { Appender } from './append.ts'
import { sweepChunks } from './chunks.ts'
import type { Stop, TurnError } from './items.ts'
import { COMPACT_TRACK, COMPACTION_DEADLINE_MS } from './compactions.ts'
import { TURN_DEADLINE_MS, TURN_TRACK } from './turns.ts'

type Deps = {
  readonly database: Transactions
  readonly expireTurn: Appender['expireTurn']
  readonly endCompaction: Appender['endCompaction']
  readonly cell: number
  /** Called when there is something to claim. */
  readonly onReady: () => void
}

const SWEEP_MS = 60_000
const LOOK_MS = 5_000
const STEP = 500
const EXPIRED: TurnError = { code: 'deadline', message: 'No pod has answered the turn within 15 minutes' }

// Reads only tracks of agents that also have a name in the directory.
const MOVE = `
  with left_alone as materialized (
    select k.id from fleetline.tracks k join fleetline.queues q on q.id = k.queue
     where q.name = '${TURN_TRACK.queue}' and k.machine = '${TURN_TRACK.name}' and k.shape like 'code:%'
       and exists (select from fleetline.agents a where k.shape = 'code:' || a.name)
       and not exists (select from fleetline.pods p where p.state = 'live' and k.id = any (p.tracks)))
  update fleetline.tasks t set track = fleetline.turn_track(t.tenant, m.agent)
    from (select w.id, u.agent from left_alone l
            join fleetline.tasks w on w.track = l.id and w.state = 'ready'
            join fleetline.turns u on u.tenant = w.tenant and u.id = w.id
            join fleetline.agents a on a.tenant = u.tenant and a.name = u.agent
           where ${IS_LEADER}
           limit ${STEP} for update of w skip locked) m
   where t.id = m.id and t.state = 'ready'
  returning t.id`

// Oldest first. Turns that a pod runs past their time limit are left out: they end by themselves soon.
export const OVERDUE = `
  select u.tenant, u.session, u.id as turn, u.epoch
    from fleetline.turns u join fleetline.tasks t on t.id = u.id and t.tenant = u.tenant
   where u.ended_at is null and u.started_at < now() - $1 * interval '1 ms' and t.pod is null
   order by u.started_at limit ${STEP}`

// Reads only tasks that no pod has: ready ones and suspects of the tracks of compactions, and all tasks that are due. Due tasks
// become ready at once while any pod runs tasks, so they are many only without such a pod. A waiting compaction is due at most a second after
// its deadline.
export const OVERDUE_COMPACTIONS = `
  with compact as materialized (
    select k.id from fleetline.tracks k join fleetline.queues q on q.id = k.queue
     where q.name = '${COMPACT_TRACK.queue}' and k.machine = '${COMPACT_TRACK.name}')
  select t.tenant, t.id as compaction, t.input ->> 'session' as session
    from compact c cross join lateral (
      (select * from fleetline.tasks
        where track = c.id and state = 'ready' and created_at < now() - $1 * interval '1 ms' limit ${STEP})
      union all
      (select * from fleetline.tasks
        where track = c.id and state = 'waiting' and reason = 'suspect' and created_at < now() - $1 * interval '1 ms'
        limit ${STEP})) t
  union all
  (select tenant, id, input ->> 'session' from fleetline.tasks
    where state = 'waiting' and reason is distinct from 'suspect' and run_at <= now()
      and track in (select id from compact) and created_at < now() - $1 * interval '1 ms'
    limit ${STEP})`
type OverdueCompaction = {
  readonly tenant: number
  readonly compaction: string
  readonly session: string
}

export function sessionDuties({ database, expireTurn, endCompaction, cell, onReady }: Deps): Duty[] {
  const run = async <T>(work: (query: Query) => Promise<T>, failed: string) =>
    valueOf(await database.transaction(work), failed)
  const seeTo = async ({ term, pod }: Term) => {
    const moved = await run((query) => query(MOVE, [term, pod]), 'Turns could not be moved')
    if (moved.length > 0) onReady()
    const overdue = await run(
      (query) => query<Stop>(OVERDUE, [TURN_DEADLINE_MS]),
      'Turns whose time is over could not be read',
    )
    await Promise.all(overdue.map((turn) => expireTurn({ ...turn, error: EXPIRED })))
  }
  const expireCompactions = async () => {
    const overdue = await run(
      (query) => query<OverdueCompaction>(OVERDUE_COMPACTIONS, [COMPACTION_DEADLINE_MS]),
      'Compactions whose time is over could not be read',
    )
    const failed = { attempt: 0, pod: null, outcome: 'failed', code: 'deadline' } as const
    await Promise.all(
      overdue.flatMap(({ session: id, ...key }) => {
        const session = parseId('session', id)
        return session?.cell === cell ? [endCompaction({ ...key, ...failed, session: session.uuid })] : []
      }),
    )
  }
  const sweep = async () => {
    await run(sweepChunks, 'Chunks of ended turns could not be swept')
  }
  return [
    { name: 'turns that no pod runs', everyMs: LOOK_MS, run: seeTo },
    { name: 'compactions that no pod runs', everyMs: LOOK_MS, run: expireCompactions },
    { name: 'chunks of ended turns', everyMs: SWEEP_MS, run: sweep },
  ]
}
