// Removes the content of erased sessions, and later their rows, in steps that can be repeated. A step is one transaction, which also stores
// how far it came. Nothing is written into an erased session, so what was removed stays removed.
import { ERASURE_MESSAGES, deleteRows, wipeMessages, wipeRest, type WipeRange } from '../session/erase.ts'
import type { SessionKey, Stop } from '../session/place.ts'
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import { TOMBSTONE_DAYS } from './receipt.ts'

const SESSIONS = 100 // in a step
const MESSAGES = 5_000

// A session with a live turn or compaction is not done. It is looked at again later, and does not hold up the others.
const NEXT = `
  select e.tenant, e.session, e.wiped_seq as after, s.head, s.turn, s.epoch, s.turn is null and s.compacting is null as "isIdle"
    from (select * from fleetline.erased_sessions
           where wiped_at is null and next_at <= now()
           order by (erasure is null), next_at limit ${SESSIONS} for update skip locked) e
    join fleetline.sessions s on s.tenant = e.tenant and s.id = e.session`
type Next = SessionKey & {
  readonly after: number
  readonly head: number
  readonly turn: string | null
  readonly epoch: number
  readonly isIdle: boolean
}

const ADVANCE = `
  update fleetline.erased_sessions e
     set wiped_seq = v.upto, wiped_at = case when v.is_over then now() end,
         next_at = case when v.is_idle then e.next_at else now() + interval '1 second' end
    from unnest($1::int[], $2::uuid[], $3::int[], $4::boolean[], $5::boolean[]) v(tenant, session, upto, is_over, is_idle)
   where e.tenant = v.tenant and e.session = v.session`
// A request is done when all its sessions are.
const CLOSE = `
  update fleetline.erasures e set done_at = now()
   where e.done_at is null and e.user_id is null
     and not exists (select from fleetline.erased_sessions s
                      where s.wiped_at is null and s.tenant = e.tenant and s.erasure = e.id)`

export type WipeStep = {
  /** There may be more. */
  readonly hasMore: boolean
  /** Turns that must be stopped before their sessions are done. */
  readonly live: readonly Stop[]
}

export async function wipeNext(query: Query): Promise<WipeStep> {
  const found = await query<Next>(NEXT)
  const sessions = fitStep(found)
  await wipeMessages(query, sessions)
  const last = sessions.filter(({ upto, head }) => upto === head)
  const isRestOver = await wipeRest(query, last)
  const rows = sessions.map((one) => ({ ...one, isOver: one.upto === one.head && one.isIdle && isRestOver }))
  await query(ADVANCE, columnsOf(rows, 'tenant', 'session', 'upto', 'isOver', 'isIdle'))
  await query(CLOSE)
  const live = sessions.flatMap(({ tenant, session, turn, epoch }) =>
    turn === null ? [] : [{ tenant, session, turn, epoch }],
  )
  return { hasMore: found.length > 0, live }
}

/** As many sessions as fit into a step, each with its next messages. */
function fitStep(found: readonly Next[]): (Next & WipeRange)[] {
  let messages = 0
  return found.flatMap((one) => {
    if (messages >= MESSAGES) return []
    const upto = Math.min(one.head, one.after + ERASURE_MESSAGES)
    messages += upto - one.after
    return [{ ...one, upto }]
  })
}

const OLD = `
  select tenant, session from fleetline.erased_sessions
   where wiped_at < $1::timestamptz - interval '${TOMBSTONE_DAYS} days'
   order by wiped_at limit 1 for update skip locked`
const FORGET = 'delete from fleetline.erased_sessions where tenant = $1 and session = $2'

/** Deletes rows of the session that was erased first, if that was long enough ago by the clock of the database. Returns false if there is none. */
export async function deleteNext(query: Query, now: Date): Promise<boolean> {
  const [old] = await query<SessionKey>(OLD, [now])
  if (!old) return false
  if (await deleteRows(query, old)) await query(FORGET, [old.tenant, old.session])
  return true
}
