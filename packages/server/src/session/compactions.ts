// A compaction and its task. They share an id. The row of the session says that it is under way; the task starts in the transaction
// that ends a turn, and ends in the transaction that stores the summary. Guarantees:
//   E1  a compaction ends under the claim of its task, or, if no pod has it, when its time is over
//   E7  a summary covers exactly the messages from 1 to `upto`; the messages stay as they are
import { formatId, type Metadata } from '@fleetline/protocol'
import { Bug } from '../errors.ts'
import type { ContextSize } from '../conversation/budget.ts'
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import { cancelTasks, endClaims, holdClaims, lockTasks, type HeldClaim } from '../task/settle.ts'
import type { CompactionEnd, StartedCompaction, Unsummarised } from './items.ts'
import { TURN_TRACK } from './turns.ts'

/** As of turns: there is one track for agents in the directory, and one for each agent in code. */
export const COMPACT_TRACK = { ...TURN_TRACK, name: 'compact', transitions: ['summarise'] }

/** A compaction older than this fails, whether a pod has it or not: messages wait for it. */
export const COMPACTION_DEADLINE_MS = 180_000

/** What the task of a compaction contains. */
export type CompactionInput = ContextSize & { readonly session: string; readonly through: number }

const START = `
  with asked as materialized (
    select tenant, agent, fleetline.compact_track(tenant, agent) as track
      from (select distinct * from unnest($1::int[], $2::text[]) d(tenant, agent)) d)
  insert into fleetline.tasks (id, tenant, track, priority, max_attempts, input, state)
  select t.id, t.tenant, k.id, $3, k.max_attempts, t.input::jsonb, 'ready'
    from unnest($1::int[], $2::text[], $4::uuid[], $5::text[]) t(tenant, agent, id, input)
    join asked a on a.tenant = t.tenant and a.agent = t.agent
    join fleetline.tracks k on k.id = a.track
  returning id`

// A new summary covers the messages of those before. One of them stays, for the case that messages which only the new one covers leave the
// conversation.
const STORE = `
  with given as (select * from unnest($1::int[], $2::uuid[], $3::int[], $4::text[]) g(tenant, session, upto, text)),
  gone as (
    delete from fleetline.summaries s using given g
     where s.tenant = g.tenant and s.session = g.session
       and s.upto < (select max(p.upto) from fleetline.summaries p
                      where p.tenant = g.tenant and p.session = g.session and p.upto < g.upto))
  insert into fleetline.summaries (tenant, session, upto, text) select * from given
  on conflict do nothing`

// The WHERE checks both fences.
const OPEN = `
  select s.id as session, s.epoch, s.agent, s.title, s.metadata, s.summarised, s.erase_count as "eraseCount", c.text as summary,
         (extract(epoch from statement_timestamp() - k.created_at) * 1000)::float8 as "ageMs"
    from fleetline.tasks k
    join fleetline.sessions s on s.tenant = k.tenant and s.id = $5 and s.compacting = k.id
    left join fleetline.summaries c on c.tenant = s.tenant and c.session = s.id and c.upto = s.summarised
   where k.tenant = $1 and k.id = $2 and k.attempt = $3 and k.pod = $4`

/** What an attempt needs to know of its compaction. */
export type OpenCompaction = {
  readonly session: string
  readonly epoch: number
  readonly agent: string
  readonly title: string | null
  readonly metadata: Metadata | null
  readonly summarised: number
  readonly eraseCount: number
  readonly summary: string | null
  /** Time since it started, by the database's clock. */
  readonly ageMs: number
}

/** Undefined: the attempt has lost its claim, or the compaction has ended. */
export async function openCompaction(
  query: Query,
  { tenant, session, ...claim }: HeldClaim & { readonly tenant: number; readonly session: string },
): Promise<OpenCompaction | undefined> {
  const values = [tenant, claim.id, claim.attempt, claim.pod, session]
  return (await query<OpenCompaction>(OPEN, values))[0]
}

/** The indexes of ends that may be written: their attempt still has its claim, or they expire and no pod has them. */
export async function findWritableEnds(
  query: Query,
  ends: ReadonlyMap<number, CompactionEnd>,
): Promise<ReadonlySet<number>> {
  if (ends.size === 0) return new Set()
  const claimed = [...ends].flatMap(([place, end]) =>
    end.pod === null ? [] : [{ place, claim: claimOf(end) }],
  )
  const expired = [...ends].filter(([, { pod }]) => pod === null)
  const held = await holdClaims(
    query,
    claimed.map(({ claim }) => claim),
  )
  const tasks = await lockTasks(
    query,
    expired.map(([, { tenant, compaction }]) => ({ tenant, id: compaction })),
  )
  return new Set([
    ...claimed.filter((_, index) => held[index]).map(({ place }) => place),
    ...expired.filter((_, index) => (tasks[index]?.pod ?? null) === null).map(([place]) => place),
  ])
}

export async function startCompactions(
  query: Query,
  started: readonly StartedCompaction[],
  cell: number,
): Promise<void> {
  if (started.length === 0) return
  const rows = await query(START, [
    ...columnsOf(started, 'tenant', 'agent'),
    COMPACT_TRACK.priority,
    ...columnsOf(started, 'compaction'),
    started.map(({ session, through, size }) => {
      const input: CompactionInput = { session: formatId('session', cell, session), through, ...size }
      return JSON.stringify(input)
    }),
  ])
  if (rows.length !== started.length) throw new Bug('There is no track for a compaction')
}

export async function endCompactions(query: Query, ended: readonly CompactionEnd[]): Promise<void> {
  if (ended.length === 0) return
  const done = ended.filter((end) => end.outcome === 'done')
  await query(STORE, columnsOf(done, 'tenant', 'session', 'upto', 'text'))
  const claimed = ended.filter(({ pod }) => pod !== null)
  const settled = await endClaims(
    query,
    claimed.map((end) => ({ ...claimOf(end), settlement: settlementOf(end) })),
  )
  if (settled !== claimed.length) throw new Bug('A compaction and its task do not end together')
  const expired = ended.filter(({ pod }) => pod === null)
  await cancelTasks(
    query,
    expired.map(({ tenant, compaction }) => ({ tenant, id: compaction })),
  )
}

const FORGET = `
  with given as (select * from unnest($1::int[], $2::uuid[], $3::int[]) g(tenant, session, since)),
  gone as (
    delete from fleetline.summaries c using given g
     where c.tenant = g.tenant and c.session = g.session and c.upto >= g.since)
  update fleetline.sessions s
     set summarised = coalesce((
           select max(c.upto) from fleetline.summaries c
            where c.tenant = g.tenant and c.session = g.session and c.upto < g.since), 0)
    from given g where s.tenant = g.tenant and s.id = g.session`

/** Call it after the sessions were written: an older summary takes the place of the forgotten one. */
export async function forgetSummaries(query: Query, sessions: readonly Unsummarised[]): Promise<void> {
  if (sessions.length > 0) await query(FORGET, columnsOf(sessions, 'tenant', 'session', 'from'))
}

function claimOf({ compaction, attempt, pod }: CompactionEnd): HeldClaim {
  return { id: compaction, attempt, pod: pod! }
}

/** Stores only the code of an error: its message may quote the conversation. */
function settlementOf(end: CompactionEnd) {
  if (end.outcome === 'done') return { type: 'done', result: 'null' } as const
  return { type: 'failed', error: JSON.stringify({ code: end.code }) } as const
}
