// The leader's duties for tasks. The metric `dutyTime` shows every run.
//   recover               every beat     returns claims of dead pods, at most 1,000 in a step (`tasksRecovered`)
//   how the queue stands  every 5 s      reads the queue, writes nothing (`queueOldest`, `tasksDead`, `tasksHeld`)
//   days of the history   every minute   makes partitions a week ahead, and detaches or drops one that no queue keeps
import { formatId } from '@fleetline/protocol'
import type { Clock } from '../lib/clock.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import type { Duty } from '../store/leader.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { dropPartitions, makePartitions } from './partitions.ts'
import { MOST_RETURNED, recover, type Returned } from './recover.ts'
import { readQueueStats, type QueueStats } from './queue-stats.ts'

type Deps = {
  readonly database: Transactions
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly cell: number
  readonly beatMs: number
  /** Called when there is something to claim again. */
  readonly onReady: () => void
}

const DAYS_MS = 60_000
const STANDING_MS = 5_000

export function taskDuties(deps: Deps): Duty[] {
  const { database } = deps
  const days = async () => {
    await makePartitions(database)
    await dropPartitions(database)
  }
  return [
    { name: 'recover', everyMs: deps.beatMs, run: rescuer(deps) },
    { name: 'how the queue stands', everyMs: STANDING_MS, run: observer(deps) },
    { name: 'days of the history', everyMs: DAYS_MS, run: days },
  ]
}

function rescuer({ database, log, metrics, cell, onReady }: Deps): Duty['run'] {
  const tell = (returned: readonly Returned[]) => {
    for (const { id, attempt, state } of returned) {
      metrics.count('tasksRecovered', { outcome: state })
      const fields = { task: formatId('task', cell, id), attempt, code: 'pod_lost' }
      if (state === 'dead') log.error('a task is dead', fields)
    }
    if (returned.length > 0) log.warn('returned claims of dead pods', { data: returned.length })
  }
  return async (term, hasTime) => {
    for (let count = MOST_RETURNED; count === MOST_RETURNED && hasTime();) {
      const outcome = await database.transaction((query) => recover(query, term))
      if (outcome.type === 'unknown') onReady() // they may have been returned
      const returned = valueOf(outcome, 'Claims of dead pods could not be returned')
      tell(returned)
      if (returned.some(({ state }) => state === 'ready')) onReady()
      count = returned.length
    }
  }
}

/** Measurements expire after three intervals, so a pod that no longer leads soon stops reporting them. */
function observer({ database, clock, metrics }: Deps): Duty['run'] {
  let seen: { readonly tracks: readonly QueueStats[]; readonly ms: number } = { tracks: [], ms: -Infinity }
  const tracks = () => (clock.monotonicMs() - seen.ms < 3 * STANDING_MS ? seen.tracks : [])
  const each = (value: (track: QueueStats) => number) => () =>
    tracks().map((track) => [{ queue: track.queue, machine: track.machine }, value(track)] as const)
  metrics.gauge(
    'queueOldest',
    each(({ oldestMs }) => oldestMs / 1000),
  )
  metrics.gauge(
    'tasksDead',
    each(({ dead }) => dead),
  )
  metrics.gauge('tasksHeld', () =>
    tracks().flatMap(({ queue, machine, held }) =>
      Object.entries(held).map(([reason, count]) => [{ queue, machine, reason }, count] as const),
    ),
  )
  return async () => {
    const outcome = await database.transaction(readQueueStats, { access: 'read' })
    seen = { tracks: valueOf(outcome, 'How the queue stands is not known'), ms: clock.monotonicMs() }
  }
}
