// When a turn that was stopped has halted: the call of its agent has ended. Its row names the pod that had it; each pod looks
// again and again, and at once when such a call has ended, and takes away its name from all turns for which it has no call
// open, and the names of the dead. So it does not matter on which way an attempt came to its end, nor whether it began.
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import type { Service } from '../lib/lifecycle.ts'
import { valueOf, type Database } from '../store/database.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'

export type Halts = Service & {
  /** From before its attempt looks at the turn until the call of its agent has ended. */
  readonly enter: (turn: string) => Entered
}
type Entered = {
  readonly leave: () => void
  /** The same; and its turn may have been stopped. */ readonly halt: () => void
}
type Deps = {
  readonly database: Pick<Database, 'transaction'>
  readonly clock: Clock
  readonly metrics: Metrics
  readonly log: Log
  /** As which this pod claims now. */
  readonly self: () => number | undefined
  readonly everyMs: number
}

// $1 this pod · $2 the turns that it has a call open for. A pod that is dead or forgotten is so for ever.
export const HALTED = `
  update fleetline.turns t set halting = null
   where t.halting is not null
     and (t.halting = $1 and t.id <> all ($2::uuid[])
          or not exists (select from fleetline.pods p where p.id = t.halting and p.state <> 'dead'))
  returning (extract(epoch from clock_timestamp() - t.ended_at) * 1000)::float8 as "afterMs"`

export function createHalts({ database, clock, metrics, log, self, everyMs }: Deps): Halts {
  const calls = new Map<string, number>()
  const look = async () => {
    const values = [self() ?? null, [...calls.keys()]]
    const outcome = await database.transaction((query) => query<{ readonly afterMs: number }>(HALTED, values))
    for (const { afterMs } of valueOf(outcome, 'Turns that have halted cannot be told'))
      metrics.observe('haltTime', {}, afterMs)
  }
  const onError = (error: unknown) => log.warn('whether turns have halted is not known', { error })
  const leave = (turn: string) => {
    const count = calls.get(turn)! - 1
    if (count > 0) calls.set(turn, count)
    else calls.delete(turn)
  }
  return {
    ...every({ clock, name: 'halts', everyMs, onError }, look),
    enter: (turn) => {
      calls.set(turn, 1 + (calls.get(turn) ?? 0))
      return {
        leave: () => leave(turn),
        halt: () => {
          leave(turn)
          look().catch(onError)
        },
      }
    },
  }
}
