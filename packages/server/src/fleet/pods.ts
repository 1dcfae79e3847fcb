// The rows of pods and of the leader. A beat counts because it changes, not for the time that it tells (`silence`); ages are
// shown to people, and judge nobody. Every write of a leader names its term and its pod in the WHERE: under an older term it
// changes no row (P2).
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
}

const JOIN = 'insert into fleetline.pods (name, version, tracks) values ($1, $2, $3) returning id'

const BEAT = `
  update fleetline.pods set beat_at = clock_timestamp() where id = $1 and state <> 'dead' returning id`

// One row per pod that is not dead; if there is none, the leader's row alone.
const LOOK = `
  select l.term, l.pod as leader, p.id, p.state, p.beat_at::text as beat
    from fleetline.leader l left join fleetline.pods p on p.state <> 'dead'`

// The compare-and-set: of all who saw the same term one takes the next. The fleet was without a leader since the last
// one's last beat, or since it gave up, or since this pod was born.
const TAKE = `
  update fleetline.leader l set term = l.term + 1, pod = $1, since = clock_timestamp()
    from fleetline.leader o left join fleetline.pods p on p.id = o.pod, fleetline.pods me
   where l.term = $2 and me.id = $1 and me.state = 'live'
  returning l.term, greatest(0, extract(epoch from
    clock_timestamp() - greatest(coalesce(p.beat_at, o.since), me.born_at)) * 1000)::float8 as "leaderlessMs"`

const GIVE_UP = 'update fleetline.leader set pod = null, since = clock_timestamp() where pod = $1'
const DRAIN = `update fleetline.pods set state = 'draining' where id = $1 and state = 'live'`
const LEAVE = `update fleetline.pods set state = 'dead', ended_at = clock_timestamp() where id = $1 and state <> 'dead'`

// $1 term · $2 the leader's pod · $3, $4 pods, each with the beat that has not changed. One that comes while this waits for
// its row, or for a server that stood still, is seen: the condition is checked on the row as it is then.
const BURY = `
  update fleetline.pods p set state = 'dead', ended_at = clock_timestamp()
    from unnest($3::int[], $4::text[]) s(id, beat)
   where p.id = s.id and p.state <> 'dead' and p.beat_at = s.beat::timestamptz
     and ${IS_LEADER}
  returning p.id`

// Dead pods are kept for an hour: people look, and what they held is looked for again and again.
const FORGET = `
  delete from fleetline.pods p
   where p.state = 'dead' and p.ended_at < clock_timestamp() - interval '1 hour'
     and ${IS_LEADER}
  returning p.id`

const LIST = `
  select p.id as pod, p.name, p.version, p.state, p.id is not distinct from l.pod as "isLeader", p.born_at as "bornAt",
         greatest(0, (extract(epoch from clock_timestamp() - p.beat_at) * 1000))::int8::float8 as "beatAgeMs",
         p.ended_at as "endedAt"
    from fleetline.pods p, fleetline.leader l
   order by p.state = 'dead', case when p.state = 'dead' then -p.id else p.id end limit 1000`

/** `tracks`: what it claims. */
type Newcomer = {
  readonly name: string
  readonly version: string
  readonly tracks: readonly number[]
}

/** A new incarnation; answers its id. */
export async function join(query: Query, { name, version, tracks }: Newcomer): Promise<number> {
  const [row] = await query<{ id: number }>(JOIN, [name, version, tracks])
  return row!.id
}

/** Whether the pod is still among the living. */
export async function beat(query: Query, pod: number): Promise<boolean> {
  return (await query(BEAT, [pod])).length > 0
}

/** Without how long they have been silent: that is for who looks again and again. */
export async function look(query: Query): Promise<SeenFleet> {
  type Row = SeenPod & { readonly term: string; readonly leader: number | null }
  const rows = await query<Row | (Row & { readonly id: null })>(LOOK)
  const { term, leader } = rows[0]!
  const members = rows.filter(({ id }) => id !== null).map(({ id, state, beat }) => ({ id, state, beat }))
  return { term: Number(term), leader, members }
}

/** The term that this pod now has, and how long there was no leader; undefined if another was faster. */
export async function take(
  query: Query,
  pod: number,
  seenTerm: number,
): Promise<(Term & { readonly leaderlessMs: number }) | undefined> {
  const [row] = await query<{ term: string; leaderlessMs: number }>(TAKE, [pod, seenTerm])
  return row && { term: Number(row.term), pod, leaderlessMs: row.leaderlessMs }
}

/** Only this incarnation ever writes its id there, so that its id is fence enough. */
export async function giveUp(query: Query, pod: number): Promise<void> {
  await query(GIVE_UP, [pod])
}

/** From now on it takes nothing new. */
export async function drain(query: Query, pod: number): Promise<void> {
  await query(DRAIN, [pod])
  await giveUp(query, pod)
}

export async function leave(query: Query, pod: number): Promise<void> {
  await query(LEAVE, [pod])
  await giveUp(query, pod)
}

/** Those whose beat is still the same; answers their ids. */
export async function bury(query: Query, { term, pod }: Term, silent: readonly Beat[]): Promise<number[]> {
  const rows = await query<{ id: number }>(BURY, [term, pod, ...columnsOf(silent, 'id', 'beat')])
  return rows.map(({ id }) => id)
}

export async function forget(query: Query, { term, pod }: Term): Promise<number> {
  return (await query(FORGET, [term, pod])).length
}

/** Those that live, the oldest first; then the dead of the last hour, the latest first. */
export async function list(query: Query): Promise<PodRow[]> {
  return query<PodRow>(LIST)
}
