// How long sessions are kept. A rule erases a session some days after its last message or its last failed reply; an empty session counts from
// its creation. A rule is for the sessions of one agent, or for all sessions of the tenant that have no agent, or whose agent has no rule.
// Without a rule, sessions are kept. Guarantees:
//   S35  a session is erased only when it is older than its rule says; that is checked again under its lock
import { uuidV7 } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Audit } from '../identity/audit.ts'
import type { SessionKey } from '../session/items.ts'
import type { MarkedSessions } from '../session/erase.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import { IS_LEADER, type Term } from '../store/leader.ts'
import { queueSessions } from './erasures.ts'
import { RETENTION_LIMITS } from './retention-limits.ts'

export type RetentionRules = {
  /** For sessions that have no agent, or whose agent has no rule. Null: they are kept. */
  readonly keepDays: number | null
  readonly agents: readonly { readonly agent: string; readonly keepDays: number }[]
}
/** Without an agent: for sessions that have no agent, or whose agent has no rule. Null: no rule. */
export type RetentionRule = { readonly agent?: string | undefined; readonly keepDays: number | null }
/** What would be erased now. */
export type RetentionPreview = {
  readonly sessions: number
  readonly messages: number
  /** The earliest and the latest `updated_at` of these sessions. */
  readonly from: string | null
  readonly to: string | null
  /** False: a preview reads only the 200,000 oldest sessions, and there may be more. Then the numbers may be too low. */
  readonly isComplete: boolean
}

export const PAGE = 1_000 // sessions that a step looks at
const PREVIEW_PAGES = 200
const MEMBERS = 5_000 // of the sessions that a step marks
const AGAIN_MINUTES = 60
const REST_MS = 60_000 // after a step that failed, perhaps not because of its session
const FIRST = '00000000-0000-0000-0000-000000000000'
const DAY_MS = 86_400_000
const NO_BYTES = new Uint8Array(10)

const RULES = `select agent, keep_days as "keepDays" from fleetline.retention where tenant = $1 order by agent`
const LOCK_TENANT = 'select from fleetline.tenants where id = $1 for no key update'
const SET = `
  insert into fleetline.retention (tenant, agent, keep_days) values ($1, $2, $3)
  on conflict (tenant, agent) do update set keep_days = excluded.keep_days where fleetline.retention.keep_days <> excluded.keep_days
  returning agent`
const REMOVE = 'delete from fleetline.retention where tenant = $1 and agent = $2 returning agent'
// The next round begins at once, and at the first session.
const BEGIN = `
  insert into fleetline.retention_progress (tenant) values ($1)
  on conflict (tenant) do update set next_at = '-infinity', last_session = '${FIRST}'`

const CLAIM = `
  update fleetline.retention_progress p set next_at = $3::timestamptz + interval '1 minute'
    from (select tenant from fleetline.retention_progress w
           where next_at <= $3 and exists (select from fleetline.retention r where r.tenant = w.tenant) and ${IS_LEADER}
           order by next_at, tenant limit 1 for update of w skip locked) n
   where p.tenant = n.tenant returning p.tenant, p.last_session as "lastSession"`
const CURRENT = `
  select from fleetline.retention_progress where tenant = $3 and last_session = $4 and ${IS_LEADER} for update`
const ADVANCE = `
  update fleetline.retention_progress set last_session = $2, next_at = $3 where tenant = $1`

// Ids are in order of time. Sessions with the id $3 or a higher one are too young for every rule.
export const CANDIDATES = `
  select id as session, agent, head, updated_at as "updatedAt",
         erased_at is null and turn is null and compacting is null as "isIdle"
    from fleetline.sessions where tenant = $1 and id > $2 and id < $3 order by id limit $4`
type Candidate = {
  readonly session: string
  readonly agent: string | null
  readonly head: number
  readonly updatedAt: Date
  readonly isIdle: boolean
}
const MEMBERS_OF = `
  select session, count(*)::int as count from fleetline.members
   where tenant = $1 and session = any ($2::uuid[]) group by session`
// A session may have got a message since it was looked at. A locked session is skipped until the next round.
const STILL_DUE = `
  select s.tenant, s.id as session from unnest($2::uuid[], $3::timestamptz[]) v(id, before)
    join fleetline.sessions s on s.tenant = $1 and s.id = v.id
   where s.updated_at < v.before and s.turn is null and s.compacting is null and s.erased_at is null
   order by s.id for no key update of s skip locked`

export type Retention = {
  rules(tenant: number): Promise<RetentionRules>
  /** Returns all rules as they are now. */
  set(tenant: number, rule: RetentionRule, actor: Actor): Promise<RetentionRules>
  /** As if this rule replaced the current one of its agent; without one, by the stored rules. */
  preview(tenant: number, rule?: RetentionRule): Promise<RetentionPreview>
}
type Deps = { readonly database: Transactions; readonly audit: Pick<Audit, 'record'> }
type Row = { readonly agent: string; readonly keepDays: number }

export async function databaseTime(query: Query): Promise<Date> {
  return (await query<{ now: Date }>('select now() as now'))[0]!.now
}

export function createRetention({ database, audit }: Deps): Retention {
  const read = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work, { access: 'read' }), 'The rules of retention cannot be read')
  return {
    rules: (tenant) => read(async (query) => rulesOf(await query<Row>(RULES, [tenant]))),
    set: async (tenant, { agent = '', keepDays }, actor) => {
      const outcome = await database.transaction(async (query) => {
        await query(LOCK_TENANT, [tenant])
        const before = await query<Row>(RULES, [tenant])
        const changed =
          keepDays === null
            ? await query(REMOVE, [tenant, agent])
            : await query(SET, [tenant, agent, keepDays])
        const rows = await query<Row>(RULES, [tenant])
        if (rows.length > RETENTION_LIMITS.rules)
          throw new Rejected(
            'too_many',
            `A tenant has at most ${RETENTION_LIMITS.rules} rules. Remove one: \`fleetline retention set off --agent NAME\``,
          )
        if (changed.length > 0) {
          await query(BEGIN, [tenant])
          const target = describeChange(agent, before, rows)
          await audit.record(query, { actor, action: 'retention.set', tenant, target })
        }
        return rulesOf(rows)
      })
      return valueOf(outcome, 'It is not known whether the rule was set. Set it again')
    },
    preview: (tenant, rule) =>
      read(async (query) => {
        const now = await databaseTime(query)
        const rows = (await query<Row>(RULES, [tenant])).filter(({ agent }) => agent !== (rule?.agent ?? ''))
        const { agent = '', keepDays } = rule ?? { keepDays: null }
        const wanted = rule ? rows : await query<Row>(RULES, [tenant])
        return countDue(query, tenant, keepDays === null ? wanted : [...wanted, { agent, keepDays }], now)
      }),
  }
}

/** For the audit log: `clerk: 30 → 365`, in days. */
function describeChange(agent: string, before: readonly Row[], after: readonly Row[]): string {
  const daysIn = (rows: readonly Row[]) => rows.find((row) => row.agent === agent)?.keepDays ?? 'none'
  return `${agent || 'all other sessions'}: ${daysIn(before)} → ${daysIn(after)}`
}

function rulesOf(rows: readonly Row[]): RetentionRules {
  return {
    keepDays: rows.find(({ agent }) => agent === '')?.keepDays ?? null,
    agents: rows.filter(({ agent }) => agent !== ''),
  }
}

type DueTimes = {
  /** The lowest id of a session that is too young for every rule. */
  readonly youngestId: string
  /** Before which time a session is due; undefined without a rule for it. */
  readonly of: (candidate: Pick<Candidate, 'agent'>) => Date | undefined
  readonly isDue: (candidate: Candidate) => boolean
}

function dueTimesOf(rows: readonly Row[], now: Date): DueTimes {
  const times = new Map(
    rows.map(({ agent, keepDays }) => [agent, new Date(now.getTime() - keepDays * DAY_MS)]),
  )
  const of: DueTimes['of'] = ({ agent }) => times.get(agent ?? '') ?? times.get('')
  const latest = Math.max(0, ...Array.from(times.values(), (time) => time.getTime()))
  return {
    youngestId: uuidV7(latest, NO_BYTES),
    of,
    isDue: (candidate) => {
      const before = of(candidate)
      return candidate.isIdle && before !== undefined && candidate.updatedAt < before
    },
  }
}

async function countDue(
  query: Query,
  tenant: number,
  rows: readonly Row[],
  now: Date,
): Promise<RetentionPreview> {
  const dueTimes = dueTimesOf(rows, now)
  const found = { sessions: 0, messages: 0, fromMs: Infinity, toMs: -Infinity }
  let [last, pages, isComplete] = [FIRST, 0, rows.length === 0]
  for (; !isComplete && pages < PREVIEW_PAGES; pages += 1) {
    const page = await query<Candidate>(CANDIDATES, [tenant, last, dueTimes.youngestId, PAGE])
    for (const candidate of page) {
      if (!dueTimes.isDue(candidate)) continue
      found.sessions += 1
      found.messages += candidate.head
      found.fromMs = Math.min(found.fromMs, candidate.updatedAt.getTime())
      found.toMs = Math.max(found.toMs, candidate.updatedAt.getTime())
    }
    last = page.at(-1)?.session ?? last
    isComplete = page.length < PAGE
  }
  const { sessions, messages, fromMs, toMs } = found
  const timeOf = (ms: number) => (Number.isFinite(ms) ? new Date(ms).toISOString() : null)
  return { sessions, messages, from: timeOf(fromMs), to: timeOf(toMs), isComplete }
}

/** The tenant whose sessions are looked at next, and where its round is. */
type Claimed = { readonly tenant: number; readonly lastSession: string }

/** Takes the tenant that has waited longest, for a minute: if its step fails, others are not held up. Undefined: no round is due. `now` comes
 *  from the clock of the database: a pod whose clock is wrong must not erase anything. */
export async function claimTenant(
  query: Query,
  { term, pod }: Term,
  now: Date,
): Promise<Claimed | undefined> {
  const rows = await query<Claimed>(CLAIM, [term, pod, now])
  return rows[0]
}

/** One step of the round: looks at up to `most` sessions of a tenant, and marks those that are due, up to 5,000 members in all. */
export async function expireNext(
  query: Query,
  { term, pod }: Term,
  { tenant, lastSession, now }: Claimed & { readonly now: Date },
  most: number = PAGE,
): Promise<MarkedSessions> {
  const [current] = await query(CURRENT, [term, pod, tenant, lastSession])
  if (!current) return { sessions: [], members: [] }
  const dueTimes = dueTimesOf(await query<Row>(RULES, [tenant]), now)
  const page = await query<Candidate>(CANDIDATES, [tenant, lastSession, dueTimes.youngestId, most])
  const { looked, due } = await withinMembers(query, tenant, page, (candidate) => dueTimes.isDue(candidate))
  const still = await query<SessionKey>(STILL_DUE, [
    tenant,
    due.map(({ session }) => session),
    due.map((candidate) => dueTimes.of(candidate)),
  ])
  const isOver = looked.length === page.length && page.length < most
  const again = new Date(now.getTime() + (isOver ? AGAIN_MINUTES * 60_000 : 0))
  await query(ADVANCE, [tenant, isOver ? FIRST : looked.at(-1)!.session, again])
  return queueSessions(query, still, null)
}

/** Passes over the next session of a round, because a step with this session alone has failed. The next round looks at it again. */
export async function passNext(
  query: Query,
  { term, pod }: Term,
  { tenant, lastSession, now }: Claimed & { readonly now: Date },
): Promise<void> {
  const [current] = await query(CURRENT, [term, pod, tenant, lastSession])
  if (!current) return
  const { youngestId } = dueTimesOf(await query<Row>(RULES, [tenant]), now)
  const [next] = await query<Candidate>(CANDIDATES, [tenant, lastSession, youngestId, 1])
  if (next) await query(ADVANCE, [tenant, next.session, new Date(now.getTime() + REST_MS)])
}

/** The sessions at the beginning of the page whose due ones have at most `MEMBERS` members, but at least one. */
async function withinMembers(
  query: Query,
  tenant: number,
  page: readonly Candidate[],
  isDue: (candidate: Candidate) => boolean,
): Promise<{ readonly looked: readonly Candidate[]; readonly due: readonly Candidate[] }> {
  const due = page.filter(isDue)
  const ids = due.map(({ session }) => session)
  const rows = await query<{ session: string; count: number }>(MEMBERS_OF, [tenant, ids])
  const counts = new Map(rows.map(({ session, count }) => [session, count]))
  let members = 0
  const first = page.findIndex((candidate, index) => {
    members += isDue(candidate) ? (counts.get(candidate.session) ?? 0) : 0
    return index > 0 && members > MEMBERS
  })
  const looked = first < 0 ? page : page.slice(0, first)
  return { looked, due: looked.filter(isDue) }
}
