// Erases messages, and marks whole sessions as erased. The row of an erased message stays as a tombstone, with seq, id, role and time. Its
// content, its author and its digest are removed: a short text could be guessed from its digest. Each statement runs under the lock of its
// session. Guarantees:
//   L2   seqs stay dense
//   S35  a reader that comes back is told which messages were erased: the session counts batches, and `erased_messages` has their messages
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import { keyOf } from './draft.ts'
import type { LiveTurn } from '../conversation/step.ts'
import type { Membership } from './archive.ts'
import type { SessionKey } from './items.ts'

/** Messages in a batch. A follower reads at least one whole batch at a time. */
export const ERASURE_MESSAGES = 500

const LOCK = `
  select erase_count as "eraseCount", summarised, errors_erased as "errorsErased" from fleetline.sessions
   where tenant = $1 and id = $2 and erased_at is null for no key update`
type ErasureState = {
  readonly eraseCount: number
  readonly summarised: number
  /** The epoch of the last turn whose error was erased, if it had one. */
  readonly errorsErased: number
}

const FIND = `
  select seq, erased as "isErased" from fleetline.messages where tenant = $1 and session = $2 and key = $3`

const ERASE = `
  with erased as (
    update fleetline.messages set body = '{"parts": []}', author = null, digest = 0, erased = true
     where tenant = $1 and session = $2 and seq = any ($4::int[]) and not erased returning seq)
  insert into fleetline.erased_messages (tenant, session, batch, seq)
  select $1, $2, $3::int + ((row_number() over (order by seq) - 1) / ${ERASURE_MESSAGES})::int + 1, seq from erased
  returning batch`

// Summaries, and errors of turns, may quote an erased message. The error of a live turn comes later.
const COUNT = `
  update fleetline.sessions
     set erase_count = greatest(erase_count, $3), version = version + 1,
         summarised = case when $4 then 0 else summarised end, next_try_seq = case when $4 then 0 else next_try_seq end,
         errors_erased = case when turn is null then epoch else epoch - 1 end
   where tenant = $1 and id = $2`
// Of a reply that has just ended, until they are swept.
const FORGET_CHUNKS = `
  delete from fleetline.chunks c using fleetline.messages m
   where m.tenant = $1 and m.session = $2 and m.seq = any ($3::int[]) and c.tenant = m.tenant and c.turn = m.turn`
const FORGET_SUMMARIES = 'delete from fleetline.summaries where tenant = $1 and session = $2'
// An ended turn gets no other error, so each turn is read once, by the index of epochs, however many messages are erased.
export const FORGET_ERRORS = `
  update fleetline.turns set error = jsonb_build_object('code', error -> 'code', 'message', 'Erased')
   where tenant = $1 and session = $2 and epoch > $3 and error is not null and error ->> 'message' <> 'Erased'`

/** The seq of the message with this id. */
export async function findMessage(
  query: Query,
  { tenant, session }: SessionKey,
  id: string,
): Promise<{ readonly seq: number; readonly isErased: boolean } | undefined> {
  const rows = await query<{ seq: number; isErased: boolean }>(FIND, [tenant, session, keyOf(id)])
  return rows[0]
}

/** Returns how many were erased now. Undefined: the session does not exist, or was erased. */
export async function eraseMessages(
  query: Query,
  { tenant, session }: SessionKey,
  seqs: readonly number[],
): Promise<number | undefined> {
  const [state] = await query<ErasureState>(LOCK, [tenant, session])
  if (!state) return undefined
  const rows = await query<{ batch: number }>(ERASE, [tenant, session, state.eraseCount, seqs])
  if (rows.length === 0) return 0
  const last = Math.max(...rows.map(({ batch }) => batch))
  const isSummarised = seqs.some((seq) => seq <= state.summarised)
  await query(COUNT, [tenant, session, last, isSummarised])
  if (isSummarised) await query(FORGET_SUMMARIES, [tenant, session])
  await query(FORGET_ERRORS, [tenant, session, state.errorsErased])
  await query(FORGET_CHUNKS, [tenant, session, seqs])
  return rows.length
}

// If a turn is live, `answered` stays as it is: the stop that follows needs it. The version becomes higher than that of any item of an inbox.
const MARK = `
  with locked as (
    select s.tenant, s.id, s.version + 2 + coalesce((
             select max(m.read_version) from fleetline.members m where m.tenant = s.tenant and m.session = s.id), 0) as version
      from unnest($1::int[], $2::uuid[]) v(tenant, id)
      join fleetline.sessions s on s.tenant = v.tenant and s.id = v.id
     where s.erased_at is null order by s.id for no key update of s)
  update fleetline.sessions s
     set erased_at = now(), alias = null, title = null, metadata = null, summarised = 0, version = l.version,
         answered = case when s.turn is null then s.head else s.answered end
    from locked l where s.tenant = l.tenant and s.id = l.id
  returning s.tenant, s.id as session, s.turn, s.epoch, s.head`
const REMOVE_MEMBERS = `
  delete from fleetline.members m using unnest($1::int[], $2::uuid[]) v(tenant, session)
   where m.tenant = v.tenant and m.session = v.session returning m.tenant, m.user_id as user, m.session`
const REMOVE_SUMMARIES = `
  delete from fleetline.summaries c using unnest($1::int[], $2::uuid[]) v(tenant, session)
   where c.tenant = v.tenant and c.session = v.session`

export type MarkedSession = SessionKey & {
  readonly turn: string | null
  readonly epoch: number
  readonly head: number
}
export type MarkedSessions = {
  readonly sessions: readonly MarkedSession[]
  /** The members that were removed. */
  readonly members: readonly Membership[]
}

/** From the commit on, nobody reads these sessions or writes into them. Their content is removed later. */
export async function markErased(query: Query, keys: readonly SessionKey[]): Promise<MarkedSessions> {
  const sessions = await query<MarkedSession>(MARK, columnsOf(keys, 'tenant', 'session'))
  if (sessions.length === 0) return { sessions, members: [] }
  const columns = columnsOf(sessions, 'tenant', 'session')
  const members = await query<Membership>(REMOVE_MEMBERS, columns)
  await query(REMOVE_SUMMARIES, columns)
  return { sessions, members }
}

export function liveTurnOf({
  tenant,
  session,
  turn,
  epoch,
}: MarkedSession): (SessionKey & LiveTurn) | undefined {
  return turn === null ? undefined : { tenant, session, turn, epoch }
}

const WIPE = `
  update fleetline.messages m
     set body = '{"parts": []}', author = null, digest = 0, erased = true
    from unnest($1::int[], $2::uuid[], $3::int[], $4::int[]) v(tenant, session, after, upto)
   where m.tenant = v.tenant and m.session = v.session and m.seq > v.after and m.seq <= v.upto and not m.erased`
const WIPE_SEQS = `
  update fleetline.messages set body = '{"parts": []}', author = null, digest = 0, erased = true
   where tenant = $1 and session = $2 and seq = any ($3::int[]) and not erased`
const WIPE_ERRORS = `
  update fleetline.turns set error = jsonb_build_object('code', error -> 'code', 'message', 'Erased')
   where (tenant, id) in (
     select t.tenant, t.id from unnest($1::int[], $2::uuid[]) v(tenant, session)
       join fleetline.turns t on t.tenant = v.tenant and t.session = v.session
      where t.error is not null and t.error ->> 'message' <> 'Erased' limit $3)
  returning id`
// Chunks of turns that ended earlier were swept long ago.
const WIPE_CHUNKS = `
  delete from fleetline.chunks where (tenant, turn) in (
    select t.tenant, t.id from unnest($1::int[], $2::uuid[]) v(tenant, session)
      join fleetline.turns t on t.tenant = v.tenant and t.session = v.session
     where t.ended_at is null or t.ended_at > now() - interval '1 day')`

export type WipeRange = SessionKey & { readonly after: number; readonly upto: number }

/** Removes the content of messages of erased sessions. */
export async function wipeMessages(query: Query, ranges: readonly WipeRange[]): Promise<void> {
  if (ranges.length > 0) await query(WIPE, columnsOf(ranges, 'tenant', 'session', 'after', 'upto'))
}

/** The same for some messages of an erased session. */
export async function wipeSeqs(query: Query, key: SessionKey, seqs: readonly number[]): Promise<void> {
  await query(WIPE_SEQS, [key.tenant, key.session, seqs])
}

/** Removes the texts of errors, and unfinished replies; also summaries and members that a pod of the previous release has added. Returns false
 *  if there may be more. */
export async function wipeRest(query: Query, keys: readonly SessionKey[]): Promise<boolean> {
  if (keys.length === 0) return true
  const columns = columnsOf(keys, 'tenant', 'session')
  const errors = await query(WIPE_ERRORS, [...columns, ERASURE_MESSAGES])
  for (const statement of [WIPE_CHUNKS, REMOVE_SUMMARIES, REMOVE_MEMBERS]) await query(statement, columns)
  return errors.length < ERASURE_MESSAGES
}

const DELETE_ROWS = 1_000
const DELETE_MESSAGES = `
  delete from fleetline.messages where (tenant, session, seq) in (
    select tenant, session, seq from fleetline.messages where tenant = $1 and session = $2 order by seq limit ${DELETE_ROWS})
  returning seq`
const DELETE_ERASED = `
  delete from fleetline.erased_messages where (tenant, session, batch, seq) in (
    select tenant, session, batch, seq from fleetline.erased_messages where tenant = $1 and session = $2 limit ${DELETE_ROWS})
  returning seq`
const DELETE_TURNS = `
  delete from fleetline.turns where (tenant, id) in (
    select tenant, id from fleetline.turns where tenant = $1 and session = $2 limit ${DELETE_ROWS}) returning id`
const DELETE_SESSION = `
  delete from fleetline.sessions where tenant = $1 and id = $2 and erased_at is not null`

/** Deletes rows of an erased session. Returns false if there may be more. Its turns ended long ago, so there are no chunks. */
export async function deleteRows(query: Query, { tenant, session }: SessionKey): Promise<boolean> {
  for (const statement of [REMOVE_SUMMARIES, REMOVE_MEMBERS]) await query(statement, [[tenant], [session]])
  for (const statement of [DELETE_MESSAGES, DELETE_ERASED, DELETE_TURNS])
    if ((await query(statement, [tenant, session])).length === DELETE_ROWS) return false
  await query(DELETE_SESSION, [tenant, session])
  return true
}
