// Finds out when a stopped turn has halted: when the call of its agent, in the attempt that was current at the stop, has ended.
// The turn's row names the pod that ran it. Each pod checks regularly, and at once when such a call ends. It removes its own
// name from turns for which it has no open call, and the names of dead pods from all turns. So it does not matter how an
// attempt ended, or whether it began.
import { formatId } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'

export type Halts = Service & {
  /** Call it before the attempt reads its turn. Leave when the call of the agent has ended. */
  readonly enter: (turn: string) => Entered
}
type Entered = {
  readonly leave: () => void
  /** Leaves and checks at once, because the turn may have been stopped. */
  readonly halt: () => void
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Metrics
  readonly log: Log
  readonly cell: number
  /** The id under which this pod claims now. */
  readonly self: () => number | undefined
  readonly everyMs: number
}

// $1: this pod. A pod that is dead, or whose row is gone, never comes back.
export const HALTING = `
  select h.* from (
    select t.tenant, t.id, t.halting, not exists (
             select from fleetline.pods p where p.id = t.halting and p.state <> 'dead') as "isDead"
      from fleetline.turns t where t.halting is not null) h
   where h.halting = $1 or h."isDead"`
const HALTED = `
  update fleetline.turns t set halting = null
    from unnest($1::int[], $2::uuid[]) h(tenant, id)
   where t.tenant = h.tenant and t.id = h.id and t.halting is not null
  returning t.id, (extract(epoch from clock_timestamp() - t.ended_at) * 1000)::float8 as "afterMs"`

type HaltRow = { readonly tenant: number; readonly id: string; readonly isDead: boolean }
type Halted = { readonly id: string; readonly afterMs: number }

export function createHalts({ database, clock, random, metrics, log, cell, self, everyMs }: Deps): Halts {
  const calls = new Map<string, number>()
  let [looking, isAsked, hasFailed] = [undefined as Promise<void> | undefined, false, false]
  // Checks open calls after it has read the rows: a call that begins later finds its turn stopped.
  const take = async (query: Query) => {
    const rows = await query<HaltRow>(HALTING, [self() ?? null])
    const over = rows.filter(({ id, isDead }) => isDead || !calls.has(id))
    if (over.length === 0) return []
    return query<Halted>(HALTED, columnsOf(over, 'tenant', 'id'))
  }
  const lookOnce = async () => {
    try {
      const halted = valueOf(await database.transaction(take), 'Turns that have halted cannot be told')
      for (const { id, afterMs } of halted) {
        metrics.observe('haltTime', {}, afterMs)
        log.info('a stopped turn has halted', { task: formatId('task', cell, id), duration_ms: afterMs })
      }
      hasFailed = false
    } catch (error) {
      if (!hasFailed) log.warn('whether turns have halted is not known', { error })
      hasFailed = true
    }
  }
  /** One check at a time. Requests that arrive meanwhile share the next one. */
  const look = () => {
    isAsked = true
    const run = async () => {
      for (; isAsked; await lookOnce()) isAsked = false
      looking = undefined
    }
    return (looking ??= run())
  }
  const leave = (turn: string) => {
    const count = calls.get(turn)! - 1
    if (count > 0) calls.set(turn, count)
    else calls.delete(turn)
  }
  return {
    ...every({ clock, random, name: 'halts', everyMs, onError: () => undefined }, look),
    enter: (turn) => {
      calls.set(turn, 1 + (calls.get(turn) ?? 0))
      return {
        leave: () => leave(turn),
        halt: () => {
          leave(turn)
          void look()
        },
      }
    },
  }
}
