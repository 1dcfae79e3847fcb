// The leader's duty for machines: every beat it moves or holds tasks whose shape no pod runs any more (orphans.ts).
import type { Clock } from '../lib/clock.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { Duty, Term } from '../store/leader.ts'
import type { Log } from '../telemetry/log.ts'
import { createOrphans } from './orphans.ts'

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly log: Log
  readonly beatMs: number
  /** Called when there is something to claim again. */
  readonly onReady: () => void
}

export function machineDuties({ database, clock, log, beatMs, onReady }: Deps): Duty[] {
  const settleOrphans = createOrphans({ database, clock })
  const step = async (term: Term): Promise<boolean> => {
    const outcome = await settleOrphans(term)
    if (outcome.type === 'unknown') onReady() // some tasks may be ready
    const { released, continued, held, isAll } = valueOf(
      outcome,
      'Tasks without a shape could not be seen to',
    )
    if (released + continued > 0) onReady()
    if (continued > 0) log.info('tasks go on in another shape of their machine', { data: continued })
    if (held > 0) log.warn('tasks are held: no live pod knows their transitions', { data: held })
    return isAll
  }
  const run = async (term: Term, hasTime: () => boolean) => {
    while (hasTime()) if (await step(term)) return
  }
  return [{ name: 'orphans', everyMs: beatMs, run }]
}
