// Removes the content of erased sessions, and later their rows, in steps that can be repeated. A step is one transaction, which also stores
// how far it came. Nothing is written into an erased session, so what was removed stays removed.
import { CHUNKS_DEADLINE_MS } from '../session/chunks.ts'
import { ERASURE_MESSAGES, deleteRows, wipeMessages, wipeRest, type WipeRange } from '../session/erase.ts'
import type { SessionKey, Stop } from '../session/items.ts'
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import { TOMBSTONE_DAYS } from './receipt.ts'

// In a step:
export const WIPE_SESSIONS = 100
const MESSAGES = 5_000
/** Of all messages together. The last one may exceed it: a reply has up to 4 MiB. */
export const STEP_BYTES = 16 * 1024 * 1024

// How long a pod may write chunks of a turn that has ended: the deadline of their statement, and a second for the commit of the end. Limit: if
// that commit takes longer, chunks may stay until they are swept, a minute later.
const LAST_CHUNKS_MS = CHUNKS_DEADLINE_MS + 1_000

// A session with a live turn or compaction is not done, and neither is one whose turn has just ended: a pod may still be writing its last
// chunks. Such a session is looked at again later, and does not hold up the others. Of its turns, the newest has ended last.
const NEXT = `
  select e.tenant, e.session, e.wiped_seq as after, s.head, s.turn, s.epoch,
         s.turn is null and s.compacting is null and coalesce((
           select t.ended_at < now() - interval '${LAST_CHUNKS_MS} ms' from fleetline.turns t
            where t.tenant = s.tenant and t.session = s.id order by t.epoch desc limit 1), true) as "isIdle"
    from (select * from fleetline.erased_sessions
           where wiped_at is null and next_at <= now()
           order by (erasure is null), next_at limit $1 for update skip locked) e
    join fleetline.sessions s on s.tenant = e.tenant and s.id = e.session`
type Next = SessionKey & {
  readonly after: number
  readonly head: number
  readonly turn: string | null
  readonly epoch: number
  readonly isIdle: boolean
}

// Up to which seq the messages of each range fit into a step. A range without a row has none that fits. Reads no body.
const FIT = `
  select n::int as n, max(seq) as upto from (
    select v.n, m.seq, sum(m.bytes) over (order by v.n, m.seq) - m.bytes as bytes_before
      from unnest($1::int[], $2::uuid[], $3::int[], $4::int[]) with ordinality v(tenant, session, after, upto, n)
     cross join lateral (
       select seq, bytes from fleetline.messages
        where tenant = v.tenant and session = v.session and seq > v.after and seq <= v.upto) m) f
   where bytes_before < ${STEP_BYTES} group by n`
const ADVANCE = `
  update fleetline.erased_sessions e
     set wiped_seq = v.upto, wiped_at = case when v.is_over then now() end,
         next_at = case when v.is_idle then e.next_at else now() + interval '1 second' end
    from unnest($1::int[], $2::uuid[], $3::int[], $4::boolean[], $5::boolean[]) v(tenant, session, upto, is_over, is_idle)
   where e.tenant = v.tenant and e.session = v.session`
const REST = `
  update fleetline.erased_sessions e set next_at = now() + interval '1 minute'
    from unnest($1::int[], $2::uuid[]) v(tenant, session) where e.tenant = v.tenant and e.session = v.session`
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

/** `most`: sessions in this step. */
export async function wipeNext(
  query: Query,
  { most = WIPE_SESSIONS, onFound }: { readonly most?: number; readonly onFound?: OnFound } = {},
): Promise<WipeStep> {
  const found = await query<Next>(NEXT, [most])
  onFound?.(found)
  const sessions = await fitBytes(query, fitCount(found))
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

/** Called with the sessions of a step before it writes. */
export type OnFound = (sessions: readonly SessionKey[]) => void

/** Puts sessions off whose step has failed, so that they do not hold up the others. */
export async function restSessions(query: Query, keys: readonly SessionKey[]): Promise<void> {
  await query(REST, columnsOf(keys, 'tenant', 'session'))
}

/** As many sessions as fit into a step, each with its next messages. */
function fitCount(found: readonly Next[]): (Next & WipeRange)[] {
  let messages = 0
  return found.flatMap((one) => {
    if (messages >= MESSAGES) return []
    const upto = Math.min(one.head, one.after + ERASURE_MESSAGES)
    messages += upto - one.after
    return [{ ...one, upto }]
  })
}

/** The first message always fits, so each step gets further. */
async function fitBytes(query: Query, sessions: readonly (Next & WipeRange)[]) {
  const rows = await query<{ n: number; upto: number }>(
    FIT,
    columnsOf(sessions, 'tenant', 'session', 'after', 'upto'),
  )
  const uptos = new Map(rows.map(({ n, upto }) => [n - 1, upto]))
  return sessions.map((one, index) => ({ ...one, upto: uptos.get(index) ?? one.after }))
}

const OLD = `
  select tenant, session from fleetline.erased_sessions
   where wiped_at < $1::timestamptz - interval '${TOMBSTONE_DAYS} days' and next_at <= $1
   order by wiped_at limit 1 for update skip locked`
const FORGET = 'delete from fleetline.erased_sessions where tenant = $1 and session = $2'

/** Deletes rows of the session that was erased first, if that was long enough ago by the clock of the database. Returns false if there is none. */
export async function deleteNext(query: Query, now: Date, onFound?: OnFound): Promise<boolean> {
  const [old] = await query<SessionKey>(OLD, [now])
  if (!old) return false
  onFound?.([old])
  if (await deleteRows(query, old)) await query(FORGET, [old.tenant, old.session])
  return true
}
