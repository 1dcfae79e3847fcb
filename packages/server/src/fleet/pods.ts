// The statements on the rows of pods and of the leader. What counts is that a beat changes, not the time in it (`silence`).
// Ages are shown to people and decide nothing. Every write of a leader names its term and its pod in the WHERE: under an
// older term it changes no row (P2).
import { columnsOf } from '../store/columns.ts'
import type { Query } from '../store/database.ts'
import { IS_LEADER, type Term } from '../store/leader.ts'
import type { View } from './election.ts'
import type { Beat } from './silence.ts'

type SeenPod = Beat & { readonly state: 'live' | 'draining' }
export type SeenFleet = Omit<View, 'members'> & { readonly members: readonly SeenPod[] }
export type PodRow = {
  readonly pod: number
  readonly name: string
  readonly version: string
  readonly state: 'live' | 'draining' | 'dead'
  readonly isLeader: boolean
  readonly bornAt: Date
  readonly beatAgeMs: number
  readonly endedAt: Date | null
  /** Its open clients at its last beat. */
  readonly sockets: number
  readonly streams: number
}

// A pod that was counted as dead while it drained joins again as draining, and an operator's request to drain still holds.
const JOIN = `
  insert into fleetline.pods (name, version, tracks, drain_ms, state, drain_asked)
  values ($1, $2, $3, $4, $5, $6) returning id`

// Each beat writes the state again, so a write of DRAIN that failed or came late does not last.
const BEAT = `
  update fleetline.pods set beat_at = clock_timestamp(), sockets = $2, streams = $3, state = $4
   where id = $1 and state <> 'dead' returning drain_asked as "isDrainAsked"`

// One row for each pod that is not dead; if there is none, only the leader's row.
const LOOK = `
  select l.term, l.pod as leader, p.id, p.state, p.beat_at::text as beat
    from fleetline.leader l left join fleetline.pods p on p.state <> 'dead'`

// The compare-and-set: of all pods that saw the same term, one takes the next. The time without a leader counts from the last
// leader's last beat, or from when it gave up, but never from before this pod was born.
const TAKE = `
  update fleetline.leader l set term = l.term + 1, pod = $1, since = clock_timestamp()
    from fleetline.leader o left join fleetline.pods p on p.id = o.pod, fleetline.pods me
   where l.term = $2 and me.id = $1 and me.state = 'live'
  returning l.term, greatest(0, extract(epoch from
    clock_timestamp() - greatest(coalesce(p.beat_at, o.since), me.born_at)) * 1000)::float8 as "leaderlessMs"`

const GIVE_UP = 'update fleetline.leader set pod = null, since = clock_timestamp() where pod = $1'
const DRAIN = `update fleetline.pods set state = 'draining' where id = $1 and state = 'live'`
const LEAVE = `update fleetline.pods set state = 'dead', ended_at = clock_timestamp() where id = $1 and state <> 'dead'`

// $1 term · $2 the leader's pod · $3, $4 pods, each with the beat that has not changed. A new beat is noticed even if it comes
// while this statement waits for the row, or for a server that hung: PostgreSQL checks the condition on the latest row.
const BURY = `
  update fleetline.pods p set state = 'dead', ended_at = clock_timestamp()
    from unnest($3::int[], $4::text[]) s(id, beat)
   where p.id = s.id and p.state <> 'dead' and p.beat_at = s.beat::timestamptz
     and ${IS_LEADER}
  returning p.id`

// Dead pods are kept for an hour: people look at them, and the leader looks for their claims again and again.
const FORGET = `
  delete from fleetline.pods p
   where p.state = 'dead' and p.ended_at < clock_timestamp() - interval '1 hour'
     and ${IS_LEADER}
  returning p.id`

const LIST = `
  select p.id as pod, p.name, p.version, p.state, p.id is not distinct from l.pod as "isLeader", p.born_at as "bornAt",
         greatest(0, (extract(epoch from clock_timestamp() - p.beat_at) * 1000))::int8::float8 as "beatAgeMs",
         p.ended_at as "endedAt", p.sockets, p.streams
    from fleetline.pods p, fleetline.leader l
   order by p.state = 'dead', case when p.state = 'dead' then -p.id else p.id end limit 1000`

/** `tracks`: those that it claims. */
type Newcomer = {
  /** How long a drain lets work go on. */
  readonly drainMs?: number
  readonly isDraining?: boolean
  /** An operator has asked the pod to drain. */
  readonly isDrainAsked?: boolean
  readonly name: string
  readonly version: string
  readonly tracks: readonly number[]
}

/** Starts a new incarnation and returns its id. */
export async function join(query: Query, newcomer: Newcomer): Promise<number> {
  const { name, version, tracks, drainMs = 0, isDraining = false, isDrainAsked = false } = newcomer
  const values = [name, version, tracks, drainMs, stateFor(isDraining), isDrainAsked]
  const [row] = await query<{ id: number }>(JOIN, values)
  return row!.id
}

function stateFor(isDraining: boolean): SeenPod['state'] {
  return isDraining ? 'draining' : 'live'
}

const NOBODY: Clients = { sockets: 0, streams: 0 }

/** Clients that are connected to a pod. */
export type Clients = { readonly sockets: number; readonly streams: number }
/** What a beat shows of its pod. */
type Shown = { readonly clients?: Clients | undefined; readonly isDraining?: boolean }

/** Returns whether an operator has asked for a drain; undefined if the pod counts as dead. */
export async function beat(
  query: Query,
  pod: number,
  { clients: { sockets, streams } = NOBODY, isDraining = false }: Shown = {},
): Promise<{ readonly isDrainAsked: boolean } | undefined> {
  const values = [pod, sockets, streams, stateFor(isDraining)]
  const [row] = await query<{ isDrainAsked: boolean }>(BEAT, values)
  return row
}

/** Does not say how long pods have been silent: the caller measures that over several looks. */
export async function look(query: Query): Promise<SeenFleet> {
  type Row = SeenPod & { readonly term: string; readonly leader: number | null }
  const rows = await query<Row | (Row & { readonly id: null })>(LOOK)
  const { term, leader } = rows[0]!
  const members = rows.filter(({ id }) => id !== null).map(({ id, state, beat }) => ({ id, state, beat }))
  return { term: Number(term), leader, members }
}

/** The term that this pod now holds, and how long there was no leader; undefined if another pod was faster. */
export async function take(
  query: Query,
  pod: number,
  seenTerm: number,
): Promise<(Term & { readonly leaderlessMs: number }) | undefined> {
  const [row] = await query<{ term: string; leaderlessMs: number }>(TAKE, [pod, seenTerm])
  return row && { term: Number(row.term), pod, leaderlessMs: row.leaderlessMs }
}

/** Only this incarnation ever writes its id there, so its id is a sufficient fence. */
export async function giveUp(query: Query, pod: number): Promise<void> {
  await query(GIVE_UP, [pod])
}

/** From now on the pod takes nothing new, until one of its beats writes that it is live again. */
export async function drain(query: Query, pod: number): Promise<void> {
  await query(DRAIN, [pod])
  await giveUp(query, pod)
}

export async function leave(query: Query, pod: number): Promise<void> {
  await query(LEAVE, [pod])
  await giveUp(query, pod)
}

/** Marks those as dead whose beat is still the same. Returns their ids. */
export async function bury(query: Query, { term, pod }: Term, silent: readonly Beat[]): Promise<number[]> {
  const rows = await query<{ id: number }>(BURY, [term, pod, ...columnsOf(silent, 'id', 'beat')])
  return rows.map(({ id }) => id)
}

export async function forget(query: Query, { term, pod }: Term): Promise<number> {
  return (await query(FORGET, [term, pod])).length
}

/** The pods that are not dead, oldest first; then those that died in the last hour, latest first. At most 1,000. */
export async function list(query: Query): Promise<PodRow[]> {
  return query<PodRow>(LIST)
}
