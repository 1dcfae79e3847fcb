// What the leader does for tasks: it returns the claims of dead pods, and keeps the days of the history.
import { formatId } from '@fleetline/protocol'
import { valueOf, type Database } from '../store/database.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { dropPartitions, makePartitions } from './partitions.ts'
import { MOST_RETURNED, recover, type Returned, type Term } from './recover.ts'

type Duty = { readonly name: string; readonly everyMs: number; readonly run: (term: Term) => Promise<void> }
type Deps = {
  readonly database: Pick<Database, 'transaction'>
  readonly log: Log
  readonly metrics: Metrics
  readonly cell: number
  readonly beatMs: number
  /** There is something to claim again. */
  readonly onReady: () => void
}

const DAYS_MS = 60_000

export function taskDuties({ database, log, metrics, cell, beatMs, onReady }: Deps): Duty[] {
  const tell = (returned: readonly Returned[]) => {
    for (const { id, attempt, state } of returned) {
      metrics.count('tasksRecovered', { outcome: state })
      const fields = { task: formatId('task', cell, id), attempt, code: 'pod_lost' }
      if (state === 'dead') log.error('a task is dead', fields)
    }
    if (returned.length > 0) log.warn('returned claims of dead pods', { data: returned.length })
  }
  const rescue = async (term: Term) => {
    for (let count = MOST_RETURNED; count === MOST_RETURNED;) {
      const outcome = await database.transaction((query) => recover(query, term))
      const returned = valueOf(outcome, 'Claims of dead pods could not be returned')
      tell(returned)
      if (returned.some(({ state }) => state === 'ready')) onReady()
      count = returned.length
    }
  }
  const days = async () => {
    await makePartitions(database)
    await dropPartitions(database)
  }
  return [
    { name: 'recover', everyMs: beatMs, run: rescue },
    { name: 'days of the history', everyMs: DAYS_MS, run: days },
  ]
}
