// Erases a user's memberships and messages, in steps that can be repeated. A step is one transaction, which also stores how far it came.
// First the user is removed from its sessions; those of which it is the only member are erased. Then all messages of the tenant are read in
// the order of their keys, and those of the user are erased. There is no index of authors: it would cost on every append, and users are
// erased seldom. Messages that are sent after the request may stay.
import type { Membership } from '../session/archive.ts'
import { AUTHOR_KINDS } from '../session/column-codes.ts'
import { eraseMessages, wipeSeqs, type MarkedSessions } from '../session/erase.ts'
import type { SessionKey } from '../session/items.ts'
import type { Query } from '../store/database.ts'
import { queueSessions } from './erasures.ts'
import { STEP_BYTES } from './wipe.ts'

// In a step:
const SESSIONS = 20
export const READ_MESSAGES = 2_000
export const WRITTEN_SESSIONS = 100 // sessions with messages of the user

const NEXT = `
  select tenant, id, user_id as user, requested_at as "requestedAt", coalesce(last_session, '00000000-0000-0000-0000-000000000000') as session, last_seq as seq
    from fleetline.erasures where done_at is null and user_id is not null and not id = any ($1::uuid[])
   order by requested_at limit 1 for update skip locked`
type Next = {
  readonly tenant: number
  readonly id: string
  readonly user: string
  readonly requestedAt: Date
  readonly session: string
  readonly seq: number
}

// The id may be used again: sessions that were made after the request stay.
const JOINED = `
  select m.session from fleetline.members m join fleetline.sessions s on s.tenant = m.tenant and s.id = m.session
   where m.tenant = $1 and m.user_id = $2 and s.created_at <= $3 limit $4`
const LOCK = `
  select id from fleetline.sessions where tenant = $1 and id = any ($2::uuid[]) order by id for no key update`
// A separate statement, so that its snapshot is taken after the locks.
const ALONE = `
  select v.session, not exists (
           select from fleetline.members m where m.tenant = $1 and m.session = v.session and m.user_id <> $3) as "isAlone"
    from unnest($2::uuid[]) v(session)`
const LEAVE = `
  delete from fleetline.members where tenant = $1 and session = any ($2::uuid[]) and user_id = $3 returning tenant, user_id as user, session`
const ADD = `
  update fleetline.erasures set sessions = sessions + $3, memberships = memberships + $4 where tenant = $1 and id = $2`

export const READ = `
  select session, seq, author = $4 and author_kind <> ${AUTHOR_KINDS.indexOf('agent')} as "isOwn", bytes
    from fleetline.messages
   where tenant = $1 and (session, seq) > ($2::uuid, $3::int)
   order by session, seq limit ${READ_MESSAGES}`
type Read = {
  readonly session: string
  readonly seq: number
  readonly isOwn: boolean | null
  readonly bytes: number
}
const ADVANCE = `
  update fleetline.erasures
     set messages = messages + $3, last_session = $4, last_seq = $5, user_id = case when $6 then null else user_id end
   where tenant = $1 and id = $2`

/** What a step has done, to be told after its commit. */
export type UserStep = {
  readonly marked: MarkedSessions
  /** Memberships that were removed from sessions that stay. */
  readonly removed: readonly Membership[]
  /** Sessions with messages that were erased now, and how many. */
  readonly changed: readonly SessionKey[]
  readonly messages: number
}
const NOTHING = { marked: { sessions: [], members: [] }, removed: [], changed: [], messages: 0 } as const

type UserStepOptions = {
  /** Sessions that this step may write. */
  readonly most?: number
  /** Erasures that are not to be chosen now. */
  readonly skipped?: readonly string[]
  /** Called with the id of the erasure before the step writes. */
  readonly onFound?: (id: string) => void
}

/** Undefined: no user is left to be erased. */
export async function eraseNextOfUser(
  query: Query,
  { most = WRITTEN_SESSIONS, skipped = [], onFound }: UserStepOptions = {},
): Promise<UserStep | undefined> {
  const [next] = await query<Next>(NEXT, [skipped])
  if (!next) return undefined
  onFound?.(next.id)
  const limits = [next.tenant, next.user, next.requestedAt, Math.min(SESSIONS, most)]
  const joined = await query<{ session: string }>(JOINED, limits)
  return joined.length > 0
    ? leaveOrErase(
        query,
        next,
        joined.map(({ session }) => session),
      )
    : eraseNextMessages(query, next, most)
}

async function leaveOrErase(
  query: Query,
  { tenant, id, user }: Next,
  sessions: readonly string[],
): Promise<UserStep> {
  await query(LOCK, [tenant, sessions])
  const rows = await query<{ session: string; isAlone: boolean }>(ALONE, [tenant, sessions, user])
  const alone = rows.filter(({ isAlone }) => isAlone).map(({ session }) => ({ tenant, session }))
  const marked = await queueSessions(query, alone, id)
  const left = await query<Membership>(LEAVE, [tenant, sessions, user])
  await query(ADD, [tenant, id, marked.sessions.length, marked.members.length + left.length])
  return { ...NOTHING, marked, removed: left }
}

async function eraseNextMessages(
  query: Query,
  { tenant, id, user, ...from }: Next,
  most: number,
): Promise<UserStep> {
  const read = await query<Read>(READ, [tenant, from.session, from.seq, user])
  const rows = fitStep(read, most)
  const own = Map.groupBy(
    rows.filter(({ isOwn }) => isOwn),
    ({ session }) => session,
  )
  const changed: SessionKey[] = []
  let messages = 0
  for (const [session, its] of own) {
    const [key, seqs] = [{ tenant, session }, its.map(({ seq }) => seq)]
    const count = await eraseMessages(query, key, seqs)
    if (count === undefined) await wipeSeqs(query, key, seqs) // the session is erased, and may not be wiped yet
    if (!count) continue
    changed.push(key)
    messages += count
  }
  const last = rows.at(-1) ?? from
  const isOver = rows.length === read.length && read.length < READ_MESSAGES
  await query(ADVANCE, [tenant, id, messages, last.session, last.seq, isOver])
  return { ...NOTHING, changed, messages }
}

/** The rows before the session that would be one too many, or the message that would be too much. The first message always fits. */
function fitStep(read: readonly Read[], most: number): readonly Read[] {
  const sessions = new Set<string>()
  let bytesBefore = 0
  const first = read.findIndex(({ session, isOwn, bytes }) => {
    if (!isOwn) return false
    if (sessions.add(session).size > most || bytesBefore >= STEP_BYTES) return true
    bytesBefore += bytes
    return false
  })
  return first < 0 ? read : read.slice(0, first)
}
