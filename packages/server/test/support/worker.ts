// Runs the tasks of a pod. The test decides which pod of the fleet it is and whether it is fenced.
import type { TestContext } from 'node:test'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { task } from '../../src/machine/definition.ts'
import type { Database } from '../../src/store/database.ts'
import type { Machine } from '../../src/task/machine.ts'
import type { Permits } from '../../src/task/runner.ts'
import { createTasks, type Tasks } from '../../src/task/tasks.ts'
import { createTracks } from '../../src/task/tracks.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from './cleanup.ts'
import { silentLog } from './log.ts'
import { downstreamsOn } from './throttle.ts'

type Fleet = Parameters<typeof createTasks>[0]['fleet']
type Options = {
  readonly machines?: readonly Machine[]
  readonly clock?: Clock
  readonly permits?: Permits
  readonly slots?: number
}

export async function workerOn(
  t: TestContext,
  database: Pick<Database, 'transaction'>,
  fleet: Fleet,
  options: Options = {},
): Promise<Tasks> {
  const { machines = [task('work', (c) => c.input as number)], clock = systemClock(), slots = 10 } = options
  const settings = { cell: 0, transactionDeadlineMs: 60_000, taskPollMs: 20, drainMs: 0, stopMs: 30_000 }
  const tracks = createTracks({ database, machines, turns: [] })
  await tracks.start()
  const tasks = createTasks({
    ...settings,
    database,
    fleet,
    slots,
    turnSlots: 1,
    clock,
    hints: { listen: () => () => undefined, send: () => undefined },
    tracks,
    permits: options.permits ?? downstreamsOn(clock).permits,
    random: systemRandom(),
    log: silentLog(),
    metrics: createMetrics(),
  })
  atEnd(t, () => tasks.stop())
  await tasks.start()
  return tasks
}
