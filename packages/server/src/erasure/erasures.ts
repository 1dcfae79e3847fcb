// Requests to erase, and their receipts. Guarantees:
//   S35  after an erasure is acknowledged, no request returns the erased content. For a user, this holds for each message and session once
//        Fleetline has found it, at the latest when the receipt is `done`. Fleetline then removes the content, even if pods die, and only
//        then the receipt is `done`
//   S32  the request is in the audit log, in the same transaction
// A repeat gets the receipt of the first request. It commits after the original, as in `session/append` (L4).
import { formatId, parseId, uuidV7, type Erasure } from '@fleetline/protocol'
import { Rejected, Retry } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Audit } from '../identity/audit.ts'
import type { Cuts } from '../identity/cuts.ts'
import type { Clock } from '../lib/clock.ts'
import { crashPoint } from '../lib/crash-point.ts'
import type { Random } from '../lib/random.ts'
import { eraseMessages, findMessage, liveTurnOf, markErased, type MarkedSessions } from '../session/erase.ts'
import type { SessionKey } from '../session/items.ts'
import type { Sessions } from '../session/sessions.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import { untilCommitted } from '../store/until-committed.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { receiptOf, type ErasureRow } from './receipt.ts'

export type Erasures = {
  /** Undefined: there is no such message. */
  eraseMessage(key: SessionKey, id: string, actor: Actor): Promise<Erasure | undefined>
  /** Undefined: there is no such session. */
  eraseSession(key: SessionKey, actor: Actor): Promise<Erasure | undefined>
  eraseUser(tenant: number, user: string, actor: Actor): Promise<Erasure>
  find(tenant: number, id: string): Promise<Erasure | undefined>
  /** Newest first: those before the erasure `before`, or the last ones. */
  list(tenant: number, range: { readonly before?: string; readonly limit: number }): Promise<Erasure[]>
}
type Deps = {
  readonly database: Transactions
  readonly audit: Pick<Audit, 'record'>
  readonly cuts: Pick<Cuts, 'cutWithin'>
  readonly sessions: Pick<Sessions, 'stopTurn' | 'notifyChanged'>
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Metrics
  readonly cell: number
  readonly auditDays: number
  readonly deadlineMs: number
  /** Called after a commit that removed the user from a session. */
  readonly onMembershipChanged: (tenant: number, user: string, session: string) => void
}

const COLUMNS = `
  id, kind, session, seq, requested_at as "requestedAt", done_at as "doneAt", sessions, messages, memberships`
const ADD_MESSAGE = `
  insert into fleetline.erasures (tenant, id, kind, session, seq, messages, done_at)
  values ($1, $2, 'message', $3, $4, $5, now()) returning ${COLUMNS}`
const ADD_SESSION = `
  insert into fleetline.erasures (tenant, id, kind, session, sessions, memberships)
  values ($1, $2, 'session', $3, 1, $4) returning ${COLUMNS}`
const ADD_USER = `
  insert into fleetline.erasures (tenant, id, kind, user_id) values ($1, $2, 'user', $3)
  on conflict (tenant, user_id) where user_id is not null do nothing returning ${COLUMNS}`
// The first transaction may have ended as unknown before it reached the standbys. The lock makes the commit of a repeat wait for them.
const OF_SESSION = `
  select ${COLUMNS} from fleetline.erasures
   where tenant = $1 and session = $2 and seq is not distinct from $3 order by id limit 1 for no key update`
const OF_USER = `select ${COLUMNS} from fleetline.erasures where tenant = $1 and user_id = $2`
const FIND = `select ${COLUMNS} from fleetline.erasures where tenant = $1 and id = $2`
const LIST = `
  select ${COLUMNS} from fleetline.erasures where tenant = $1 and id < $2 order by id desc limit $3`
const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

const QUEUE = `
  insert into fleetline.erased_sessions (tenant, session, erasure)
  select v.tenant, v.session, $3 from unnest($1::int[], $2::uuid[]) v(tenant, session)`

/** Marks sessions as erased, and queues their content for removal. `erasure`: the request; null if a rule has expired them. */
export async function queueSessions(
  query: Query,
  keys: readonly SessionKey[],
  erasure: string | null,
): Promise<MarkedSessions> {
  const marked = await markErased(query, keys)
  const { sessions } = marked
  const columns = [sessions.map(({ tenant }) => tenant), sessions.map(({ session }) => session)]
  if (sessions.length > 0) await query(QUEUE, [...columns, erasure])
  return marked
}

export function createErasures(deps: Deps): Erasures {
  const { database, audit, cuts, clock, random, metrics, cell } = deps
  const newId = () => uuidV7(clock.now(), random.bytes(10))
  const shownId = (id: string) => formatId('erasure', cell, id) // as on the receipt, so that people can search for it
  const commit = async <T>(work: (query: Query) => Promise<T>, key?: SessionKey) =>
    valueOf(await untilCommitted(deps, work), unknownOutcome(key && formatId('session', cell, key.session)))
  const read = async (sql: string, values: unknown[]) => {
    const outcome = await database.transaction((query) => query<ErasureRow>(sql, values), { access: 'read' })
    return valueOf(outcome, 'The erasures cannot be read').map((row) => receiptOf(row, deps))
  }
  const ofSession = async (query: Query, { tenant, session }: SessionKey, seq: number | null) =>
    (await query<ErasureRow>(OF_SESSION, [tenant, session, seq]))[0]
  const eraseMessageIn = async (query: Query, key: SessionKey, id: string, actor: Actor) => {
    const found = await findMessage(query, key, id)
    if (!found) return undefined
    const { tenant, session } = key
    const { seq } = found
    const before = found.isErased ? await ofSession(query, key, seq) : undefined
    if (before) return { row: before, count: 0 }
    const count = await eraseMessages(query, key, [seq])
    if (count === undefined) return undefined
    // If another request has erased it meanwhile, its receipt is there now. If a user was erased, the message has no receipt of its own yet.
    const meanwhile = count === 0 ? await ofSession(query, key, seq) : undefined
    if (meanwhile) return { row: meanwhile, count }
    const [row] = await query<ErasureRow>(ADD_MESSAGE, [tenant, newId(), session, seq, count])
    await audit.record(query, { actor, action: 'message.erase', tenant, target: shownId(row!.id) })
    return { row: row!, count }
  }
  const eraseSessionIn = async (query: Query, key: SessionKey, actor: Actor) => {
    const { tenant, session } = key
    const id = newId()
    const marked = await queueSessions(query, [key], id)
    if (marked.sessions.length === 0) return { row: await ofSession(query, key, null), marked }
    const [row] = await query<ErasureRow>(ADD_SESSION, [tenant, id, session, marked.members.length])
    await audit.record(query, { actor, action: 'session.erase', tenant, target: shownId(id) })
    return { row, marked }
  }
  const eraseUserIn = async (query: Query, tenant: number, name: string, actor: Actor) => {
    // Also in a repeat: tokens may have been minted since. And this write makes its commit wait for the standbys, as the lock above does.
    await cuts.cutWithin(query, tenant, name)
    const [made] = await query<ErasureRow>(ADD_USER, [tenant, newId(), name])
    const row = made ?? (await query<ErasureRow>(OF_USER, [tenant, name]))[0]
    if (!row) throw new Retry('unavailable', 'An erasure of this user has just ended: send the request again')
    await audit.record(query, { actor, action: 'user.erase', tenant, target: shownId(row.id) })
    return row
  }
  return {
    eraseMessage: async (key, id, actor) => {
      const done = await commit((query) => eraseMessageIn(query, key, id, actor), key)
      if (!done) return undefined
      if (done.count > 0) deps.sessions.notifyChanged(key)
      metrics.count('erasedMessages', {}, done.count)
      return receiptOf(done.row, deps)
    },
    eraseSession: async (key, actor) => {
      const { row, marked } = await commit((query) => eraseSessionIn(query, key, actor), key)
      await crashPoint('erase.committed')
      notifyErased(deps, marked)
      metrics.count('erasedSessions', { cause: 'request' }, marked.sessions.length)
      return row && receiptOf(row, deps)
    },
    eraseUser: async (tenant, name, actor) =>
      receiptOf(await commit((query) => eraseUserIn(query, tenant, name, actor)), deps),
    find: async (tenant, text) => {
      const id = parseId('erasure', text)
      return id?.cell === cell ? (await read(FIND, [tenant, id.uuid]))[0] : undefined
    },
    list: async (tenant, { before, limit }) => {
      const id = before === undefined ? undefined : parseId('erasure', before)
      if (before !== undefined && id?.cell !== cell)
        throw new Rejected(
          'invalid',
          `query.before: must be the id of an erasure (era_…), and ${before} is not`,
        )
      return read(LIST, [tenant, id?.uuid ?? AFTER_ALL, limit])
    },
  }
}

/** Names the id, because another session may have got the alias before the repeat. */
function unknownOutcome(session?: string): string {
  const how = session === undefined ? '' : ` with the id ${session}, even if you used an alias`
  return `It is not known whether the erasure was stored. Send the request again${how}`
}

type Notifiers = Pick<Deps, 'sessions' | 'onMembershipChanged'>

/** Call it after the commit. If the pod dies before it has stopped the turns, the leader stops them. */
export function notifyErased({ sessions, onMembershipChanged }: Notifiers, marked: MarkedSessions): void {
  for (const { tenant, user, session } of marked.members) onMembershipChanged(tenant, user, session)
  for (const session of marked.sessions) {
    sessions.notifyChanged(session)
    const live = liveTurnOf(session)
    if (live) sessions.stopTurn(live).catch(() => undefined)
  }
}
