// A turn's row and its task. They share an id and are written in one transaction, together with the step of the session. Only
// a session ends a turn (E1): the task may have more attempts than recovery will ever count, and it ends with its turn.
import { formatId, type Metadata } from '@fleetline/protocol'
import { MOST_SENT } from '../conversation/budget.ts'
import { Bug } from '../errors.ts'
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import type { Machine } from '../task/machine.ts'
import { cancelTasks, endClaims, holdClaims, lockTasks, type HeldClaim } from '../task/settle.ts'
import { recordUsage } from '../usage/record.ts'
import { readSpoken, type TurnKey } from './chunks.ts'
import { partialOf } from './partial.ts'
import { formatRanges, parseRanges } from './seq-ranges.ts'
import { findLostUsage, reportedIn } from './reported-usage.ts'
import type { Closed, Open, Started, Stop, TurnEnd, TurnRow } from './items.ts'

// The track of turns whose agents are in the directory; every pod that runs turns may call these. A migration creates the
// track, so it exists before any pod. Attempts have no limit, because only its session ends a turn. Turns go before plain
// tasks: somebody waits for the first word.
type TurnTrack = Pick<Machine, 'name' | 'queue' | 'shape' | 'transitions' | 'maxAttempts' | 'isInternal'> & {
  readonly priority: number
}
const NO_LIMIT = 32_767 // the largest value of its column
export const TURN_TRACK: TurnTrack = {
  queue: 'turns',
  name: 'turn',
  shape: 'session',
  transitions: ['reply'],
  maxAttempts: NO_LIMIT,
  isInternal: true,
  priority: 5,
}

/** A turn older than this ends as failed, whether a pod has it or not. */
export const TURN_DEADLINE_MS = 900_000

const FIND = `
  select k.n::int as n, t.session, t.epoch, t.agent, t.read_from as "readFrom", t.asked_from as "askedFrom", t.read_to as "readTo",
         t.replaces::text as replaces, t.ended_by as "endedBy", t.outcome
    from unnest($1::int[], $2::uuid[]) with ordinality k(tenant, id, n)
    join fleetline.turns t on t.tenant = k.tenant and t.id = k.id`

// A separate statement, before the next turn starts: the index would reject a second live turn.
const TURN_CLOSE = `
  update fleetline.turns t
     set ended_at = statement_timestamp(), ended_by = c.attempt, outcome = c.outcome, error = c.error::jsonb,
         read_to = c.read_to, halting = c.halting
    from unnest($1::int[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[], $7::int[])
         c(tenant, id, attempt, read_to, outcome, error, halting)
   where t.tenant = c.tenant and t.id = c.id and t.ended_at is null returning t.id`

export const TURN_START = `
  insert into fleetline.turns (started_at, id, session, tenant, epoch, read_from, asked_from, agent, read_to, replaces, cause)
  select statement_timestamp(), s.id, s.session, s.tenant, s.epoch, s.read_from, s.asked_from, s.agent, s.read_to,
         s.replaces::int4multirange, decode(s.cause, 'hex')
    from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::int[], $6::int[], $7::text[], $8::int[], $9::text[], $10::text[])
         s(id, session, tenant, epoch, read_from, asked_from, agent, read_to, replaces, cause)`

// Materialized, so that a track is looked up once per agent and not once per turn.
export const TURN_TASKS = `
  with asked as materialized (
    select tenant, agent, fleetline.turn_track(tenant, agent) as track
      from (select distinct * from unnest($1::int[], $2::text[]) d(tenant, agent)) d)
  insert into fleetline.tasks (id, tenant, track, priority, max_attempts, input, state)
  select t.id, t.tenant, k.id, $3, k.max_attempts, t.input::jsonb, 'ready'
    from unnest($1::int[], $2::text[], $4::uuid[], $5::text[]) t(tenant, agent, id, input)
    join asked a on a.tenant = t.tenant and a.agent = t.agent
    join fleetline.tracks k on k.id = a.track
  returning id`

// Returns the claim to the queue, on the track of pods that have this agent. It does not count as an attempt: no agent was
// called.
const TURN_PASS_ON = `
  update fleetline.tasks t
     set track = r.track, state = 'ready', pod = null, claimed_at = null, spent = t.spent - 1
    from (select fleetline.turn_track($1, $2) as track) r
   where t.tenant = $1 and t.id = $3 and t.attempt = $4 and t.pod = $5 and t.track <> r.track
  returning t.id`

/** SQL: the last seq that turn `t` reads when the session's head is `head`. It counts from `asked_from` and stops at one call's worth, 500
 *  messages or 2 MiB; the next turn reads the rest. Limit: messages that ask for no reply count too, so a flood of them takes several
 *  turns. Turns of the previous release have no `asked_from` and read up to the head. */
export const sqlOfReadTo = (head: string): string => `coalesce((
           select max(m.seq) from (
             select seq, sum(bytes) over (order by seq) as bytes_so_far, row_number() over (order by seq) as n from (
               select seq, bytes from fleetline.messages
                where tenant = t.tenant and session = t.session
                  and seq between t.asked_from and ${head}
                order by seq limit ${MOST_SENT.messages}) l) m
            where m.n = 1 or m.bytes_so_far <= ${MOST_SENT.bytes}), ${head})`

// The first attempt fixes how far its turn reads. The WHERE checks the fences. The head is from the statement's snapshot.
export const TURN_OPEN = `
  update fleetline.turns t
     set read_to = coalesce(t.read_to, ${sqlOfReadTo('s.head')})
    from fleetline.sessions s, fleetline.tasks k
   where t.tenant = $1 and t.id = $2 and t.ended_at is null
     and s.tenant = t.tenant and s.id = t.session and s.turn = t.id and s.epoch = t.epoch
     and k.tenant = t.tenant and k.id = t.id and k.attempt = $3 and k.pod = $4
  returning t.session, t.epoch, t.agent, t.read_from as "readFrom",
            coalesce(t.asked_from, t.read_from) as "askedFrom", t.read_to as "readTo", t.replaces::text as replaces, s.asked, s.title, s.metadata, s.summarised, s.erase_count as "eraseCount",
            (select c.text from fleetline.summaries c
              where c.tenant = s.tenant and c.session = s.id and c.upto = s.summarised) as summary,
            (extract(epoch from statement_timestamp() - t.started_at) * 1000)::float8 as "ageMs"`

/** What an attempt needs to know of its turn. */
export type OpenTurn = {
  readonly session: string
  readonly epoch: number
  readonly agent: string
  readonly readFrom: number
  /** The seq of the first message that may ask for this reply. The messages from `readFrom` to here do not ask, so the window may
   *  leave them out. */
  readonly askedFrom: number
  readonly readTo: number
  /** The messages in whose place its reply will stand, as PostgreSQL writes ranges; null unless it writes a reply anew. */
  readonly replaces: string | null
  /** The seq of the last message that asks for a reply. Later ones are notes. */
  readonly asked: number
  readonly title: string | null
  readonly metadata: Metadata | null
  /** The summary stands for the messages up to this seq; 0 without one. */
  readonly summarised: number
  /** How many batches of messages were erased. */
  readonly eraseCount: number
  readonly summary: string | null
  /** Time since the turn started, by the database's clock. */
  readonly ageMs: number
}

/** Undefined: the attempt has lost its claim or its turn. Also writes what earlier attempts had used when their pods died. */
export async function openTurn(
  query: Query,
  tenant: number,
  claim: HeldClaim,
): Promise<OpenTurn | undefined> {
  const rows = await query<OpenTurn>(TURN_OPEN, [tenant, claim.id, claim.attempt, claim.pod])
  if (rows.length > 0 && claim.attempt > 1)
    await recordUsage(query, await findLostUsage(query, [{ tenant, turn: claim.id }]))
  return rows[0]
}

/** True if the task now waits on another track, because other pods have its agent in their code. */
export async function passOnTurn(
  query: Query,
  agent: string,
  { tenant, ...claim }: HeldClaim & { readonly tenant: number },
): Promise<boolean> {
  const rows = await query(TURN_PASS_ON, [tenant, agent, claim.id, claim.attempt, claim.pod])
  return rows.length > 0
}

/** By the indexes of the ends: their turns, and which attempts still have their claim. The claims stay locked until the
 *  transaction ends. */
export async function findTurns(
  query: Query,
  ends: ReadonlyMap<number, TurnEnd>,
): Promise<{ readonly turns: ReadonlyMap<number, TurnRow>; readonly held: ReadonlySet<number> }> {
  if (ends.size === 0) return { turns: new Map(), held: new Set() }
  const [places, list] = [[...ends.keys()], [...ends.values()]]
  const held = await holdClaims(query, list.map(claimOf))
  return { turns: await findRows(query, ends), held: new Set(places.filter((_, index) => held[index])) }
}

/** By the indexes of stops and expiries: their turns. For live ones also which pod has them, locked until the transaction
 *  ends, and what they have said. */
export async function findStops(
  query: Query,
  stops: ReadonlyMap<number, Stop>,
  isLive: (stop: Stop) => boolean,
  cell: number,
): Promise<{ readonly turns: ReadonlyMap<number, TurnRow>; readonly open: ReadonlyMap<number, Open> }> {
  if (stops.size === 0) return { turns: new Map(), open: new Map() }
  const turns = await findRows(query, stops)
  const live = [...stops].filter(([, stop]) => isLive(stop))
  if (live.length === 0) return { turns, open: new Map() }
  const tasks = await lockTasks(
    query,
    live.map(([, { tenant, turn }]) => ({ tenant, id: turn })),
  )
  const said = await readSpoken(
    query,
    live.map(([, { tenant, turn }], index) => ({ tenant, turn, attempt: tasks[index]?.attempt ?? 0 })),
  )
  const begun = live.flatMap(([, { tenant, turn }], index) =>
    (tasks[index]?.attempt ?? 0) > 0 ? [[turn, { tenant, turn }] as const] : [],
  )
  const lost = Map.groupBy(await findLostUsage(query, [...new Map(begun).values()]), ({ turn }) => turn)
  const open = live.flatMap(([place, { turn }], index): [number, Open][] => {
    const [task, row] = [tasks[index], turns.get(place)]
    if (!task || !row) return []
    const spoken = task.pod === null ? [] : said[index]! // no pod has it: its last attempt failed, and nothing of that is kept
    const message = partialOf(formatId('message', cell, turn), row.agent, spoken)
    const { attempt } = task
    const current = { attempt, outcome: 'stopped', models: reportedIn(spoken) } as const
    const used = [...(lost.get(turn) ?? []), ...(task.pod === null ? [] : [current])]
    return [[place, { ...task, said: message, used }]]
  })
  return { turns, open: new Map(open) }
}

async function findRows(
  query: Query,
  named: ReadonlyMap<number, TurnKey>,
): Promise<ReadonlyMap<number, TurnRow>> {
  const [places, list] = [[...named.keys()], [...named.values()]]
  type Row = Omit<TurnRow, 'replaces'> & { readonly n: number; readonly replaces: string | null }
  const rows = await query<Row>(FIND, columnsOf(list, 'tenant', 'turn'))
  return new Map(
    rows.map(({ n, replaces, ...row }) => [
      places[n - 1]!,
      { ...row, replaces: replaces === null ? null : parseRanges(replaces) },
    ]),
  )
}

export async function closeTurns(query: Query, closed: readonly Closed[]): Promise<void> {
  if (closed.length === 0) return
  const rows = await query(TURN_CLOSE, [
    ...columnsOf(closed, 'tenant', 'turn', 'attempt', 'readTo', 'outcome'),
    closed.map((one) => ('error' in one && one.error ? JSON.stringify(one.error) : null)),
    closed.map((one) => (one.outcome === 'stopped' ? one.pod : null)),
  ])
  const ends = closed.filter(isByItsClaim)
  const others = closed.filter((one) => !isByItsClaim(one))
  const ended = await endClaims(
    query,
    ends.map((end) => ({ ...claimOf(end), settlement: settlementOf(end) })),
  )
  const cancelled = await cancelTasks(
    query,
    others.map(({ tenant, turn }) => ({ tenant, id: turn })),
  )
  if (rows.length !== closed.length || ended + cancelled !== closed.length)
    throw new Bug('A turn and its task do not end together')
  await recordUsage(
    query,
    closed.flatMap(({ tenant, turn, used }) => used.map((one) => ({ ...one, tenant, turn }))),
  )
}

export async function startTurns(query: Query, started: readonly Started[], cell: number): Promise<void> {
  if (started.length === 0) return
  await query(TURN_START, [
    ...columnsOf(started, 'turn', 'session', 'tenant', 'epoch', 'readFrom', 'askedFrom', 'agent', 'readTo'),
    started.map(({ replaces }) => (replaces ? formatRanges(replaces) : null)),
    started.map(({ cause = null }) => cause),
  ])
  const rows = await query(TURN_TASKS, [
    ...columnsOf(started, 'tenant', 'agent'),
    TURN_TRACK.priority,
    ...columnsOf(started, 'turn'),
    // Ids only: readers of tasks, task history and dead tasks must not see the conversation.
    started.map(({ session, epoch }) =>
      JSON.stringify({ session: formatId('session', cell, session), epoch }),
    ),
  ])
  if (rows.length !== started.length) throw new Bug('There is no track for a turn')
}

function claimOf({ turn, attempt, pod }: Pick<TurnEnd, 'turn' | 'attempt' | 'pod'>): HeldClaim {
  return { id: turn, attempt, pod }
}

type EndedTurn = Extract<Closed, { readonly outcome: 'done' | 'failed' }> & { readonly pod: number }

/** Whether the attempt that has the claim ended the turn. If not, the turn was stopped, or its time limit has passed. */
function isByItsClaim(one: Closed): one is EndedTurn {
  return one.outcome !== 'stopped' && one.pod !== null
}

/** Stores only the code of an error: its message may quote the conversation. */
function settlementOf(end: EndedTurn) {
  if (end.outcome === 'done') return { type: 'done', result: 'null' } as const
  return { type: 'failed', error: JSON.stringify({ code: end.error.code }) } as const
}
