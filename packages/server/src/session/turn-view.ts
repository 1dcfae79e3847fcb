// A turn as people see it. Its row says what the conversation decided; its task, while that exists, says which pod runs it.
// One statement reads both, so they are from the same moment. Turns are found by (tenant, id): to a tenant, a turn of another
// tenant does not exist.
import { formatId, parseId, type Turn, type TurnState } from '@fleetline/protocol'
import { valueOf, type Transactions } from '../store/database.ts'
import type { TurnKey } from './chunks.ts'
import { parseRanges } from './seq-ranges.ts'
import type { SessionKey } from './items.ts'
import { sqlOfReadTo } from './turns.ts'

export type TurnView = {
  readonly findTurn: (tenant: number, id: string) => Promise<Turn | undefined>
  /** Finds a turn by its UUID. */
  readonly readTurn: (key: TurnKey) => Promise<Turn | undefined>
  /** The newest turn that answers the message at this seq, or has not read yet and will. Undefined: a later turn answers it, or none. */
  readonly findAnswering: (key: SessionKey, seq: number) => Promise<Turn | undefined>
  /** Whether a live turn has said anything that readers may have seen. */
  readonly hasSpoken: (key: TurnKey) => Promise<boolean>
  /** The ended turns of a session with `after` < epoch <= `to`. */
  readonly readEnded: (key: SessionKey, epochs: Epochs) => Promise<readonly Turn[]>
}

type Epochs = { readonly after: number; readonly to: number }
type Deps = { readonly database: Transactions; readonly cell: number }

const VIEW = `
  select t.id, t.session, t.epoch, t.agent, t.read_from as from, t.read_to as to, t.replaces::text as replaces, t.started_at as "startedAt",
         t.ended_at as "endedAt", coalesce(k.attempt, t.ended_by, 0) as attempt,
         coalesce(t.outcome, case when k.state = 'claimed' then 'running' else 'queued' end) as state,
         case when s.erased_at is null or t.error is null then t.error
              else jsonb_build_object('code', t.error -> 'code', 'message', 'Erased') end as error,
         p.name as pod, case when k.state = 'waiting' then k.run_at end as "retryAt",
         case when k.state = 'waiting' then k.error ->> 'code'
              when k.state = 'ready' and not exists (select from fleetline.pods l where l.state = 'live' and k.track = any (l.tracks))
              then 'agent_unknown' end as "waitsFor",
         case when t.outcome = 'stopped' then t.halting is null end as halted
    from fleetline.turns t
    join fleetline.sessions s on s.tenant = t.tenant and s.id = t.session
    left join fleetline.tasks k on k.id = t.id and k.tenant = t.tenant
    left join fleetline.pods p on p.id = k.pod`
const FIND = `${VIEW} where t.tenant = $1 and t.id = $2`
// A turn that has not read yet reads a message only if there is room for it, with all that come before it. Later messages do
// not change this, because room is counted in log order.
const ANSWERING = `
  ${VIEW} where t.tenant = $1 and t.session = $2 and t.read_from <= $3 and coalesce(t.read_to, ${sqlOfReadTo('$3::int')}) >= $3
   order by t.epoch desc limit 1`
// The first two chunks begin the message and its step.
const SPOKEN = `
  select exists (select from fleetline.chunks where tenant = $1 and turn = $2 and index + count > 2) as "hasSpoken"`
const ENDED = `
  ${VIEW} where t.tenant = $1 and t.session = $2 and t.epoch > $3 and t.epoch <= $4 and t.ended_at is not null
   order by t.epoch`

type TurnViewRow = Pick<Turn, 'epoch' | 'attempt' | 'agent' | 'pod' | 'error' | 'waitsFor'> & {
  readonly id: string
  readonly session: string
  readonly state: TurnState
  readonly from: number
  readonly to: number | null
  readonly replaces: string | null
  readonly startedAt: Date
  readonly retryAt: Date | null
  readonly endedAt: Date | null
  readonly halted: boolean | null
}

export function createTurnView({ database, cell }: Deps): TurnView {
  const turnOf = (row: TurnViewRow): Turn => ({
    id: formatId('turn', cell, row.id),
    session: formatId('session', cell, row.session),
    state: row.state,
    epoch: row.epoch,
    attempt: row.attempt,
    agent: row.agent,
    message: formatId('message', cell, row.id),
    answers: { from: row.from, to: row.to },
    ...(row.replaces === null ? {} : { replaces: parseRanges(row.replaces) }),
    pod: row.pod,
    startedAt: row.startedAt.toISOString(),
    retryAt: row.retryAt && row.retryAt.toISOString(),
    waitsFor: row.waitsFor,
    endedAt: row.endedAt && row.endedAt.toISOString(),
    error: row.error,
    ...(row.halted === null ? {} : { halted: row.halted }),
  })
  const readTurn = async ({ tenant, turn }: TurnKey) => {
    const outcome = await database.transaction((query) => query<TurnViewRow>(FIND, [tenant, turn]), {
      access: 'read',
    })
    const [row] = valueOf(outcome, 'The turn cannot be read')
    return row && turnOf(row)
  }
  return {
    readTurn,
    readEnded: async ({ tenant, session }, { after, to }) => {
      const outcome = await database.transaction(
        (query) => query<TurnViewRow>(ENDED, [tenant, session, after, to]),
        {
          access: 'read',
        },
      )
      return valueOf(outcome, 'The turns cannot be read').map(turnOf)
    },
    findAnswering: async ({ tenant, session }, seq) => {
      const outcome = await database.transaction(
        (query) => query<TurnViewRow>(ANSWERING, [tenant, session, seq]),
        { access: 'read' },
      )
      const [row] = valueOf(outcome, 'The turn cannot be read')
      return row && turnOf(row)
    },
    hasSpoken: async ({ tenant, turn }) => {
      const outcome = await database.transaction(
        (query) => query<{ readonly hasSpoken: boolean }>(SPOKEN, [tenant, turn]),
        { access: 'read' },
      )
      return valueOf(outcome, 'The chunks cannot be read')[0]!.hasSpoken
    },
    findTurn: async (tenant, text) => {
      const id = parseId('turn', text)
      return id?.cell === cell ? readTurn({ tenant, turn: id.uuid }) : undefined
    },
  }
}
