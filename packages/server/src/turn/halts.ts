// When a turn that was stopped has halted: the call of its agent, that of the attempt which was current then, has ended. Its
// row names the pod that had it; each pod looks again and again, and at once when such a call has ended, and takes its own
// name away from turns for which it has no call open, and the names of the dead from all. So it does not matter on which way
// an attempt came to its end, nor whether it began.
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Transactions, type Query } from '../store/database.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'

export type Halts = Service & {
  /** From before its attempt looks at the turn until the call of its agent has ended. */
  readonly enter: (turn: string) => Entered
}
type Entered = {
  readonly leave: () => void
  /** The same; and its turn may have been stopped. */
  readonly halt: () => void
}
type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly metrics: Metrics
  readonly log: Log
  /** As which this pod claims now. */
  readonly self: () => number | undefined
  readonly everyMs: number
}

// $1 this pod. A pod that is dead or forgotten is so for ever.
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
  returning (extract(epoch from clock_timestamp() - t.ended_at) * 1000)::float8 as "afterMs"`

type HaltRow = { readonly tenant: number; readonly id: string; readonly isDead: boolean }

export function createHalts({ database, clock, random, metrics, log, self, everyMs }: Deps): Halts {
  const calls = new Map<string, number>()
  let [looking, isAsked, hasFailed] = [undefined as Promise<void> | undefined, false, false]
  // Which calls are open is asked behind the rows: one that begins later finds its turn stopped.
  const take = async (query: Query) => {
    const rows = await query<HaltRow>(HALTING, [self() ?? null])
    const over = rows.filter(({ id, isDead }) => isDead || !calls.has(id))
    if (over.length === 0) return []
    return query<{ afterMs: number }>(HALTED, columnsOf(over, 'tenant', 'id'))
  }
  const lookOnce = async () => {
    try {
      const halted = valueOf(await database.transaction(take), 'Turns that have halted cannot be told')
      for (const { afterMs } of halted) metrics.observe('haltTime', {}, afterMs)
      hasFailed = false
    } catch (error) {
      if (!hasFailed) log.warn('whether turns have halted is not known', { error })
      hasFailed = true
    }
  }
  /** One at a time: what is asked for meanwhile, goes into the next. */
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
