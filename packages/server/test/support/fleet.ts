// Starts fleets in the test's own process. Also reads the rows of pods, and changes them by SQL without the code under test.
import type { TestContext } from 'node:test'
import { createFleet, type Fleet } from '../../src/fleet/fleet.ts'
import { list, type PodRow } from '../../src/fleet/pods.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from './cleanup.ts'

type Transactions = Pick<Database, 'transaction'>

/** Starts a fleet with a ttl so long that even a busy machine stays within it. */
export async function fleetOn(
  t: TestContext,
  url: string,
  database: Transactions,
  options: Partial<Parameters<typeof createFleet>[0]> = {},
): Promise<Fleet> {
  const fleet = createFleet({
    databaseUrl: url,
    database,
    clock: systemClock(),
    metrics: createMetrics(),
    log: createLog({ level: 'error', destination: { write: () => undefined } }),
    name: 'test',
    version: '0.0.0',
    tracks: () => [],
    beatMs: 100,
    ttlMs: 60_000,
    stopMs: 30_000,
    duties: [],
    ...options,
  })
  atEnd(t, () => fleet.stop())
  await fleet.start()
  return fleet
}

export async function podRows(database: Transactions): Promise<PodRow[]> {
  return valueOf(await database.transaction(list), 'no pods')
}

export async function stateOf(database: Transactions, pod: number): Promise<PodRow['state'] | undefined> {
  return (await podRows(database)).find((row) => row.pod === pod)?.state
}

export async function leaderOf(database: Transactions): Promise<number | undefined> {
  return (await podRows(database)).find(({ isLeader }) => isLeader)?.pod
}

/** Acts as if the database's clock had been set forward by `ms`, or back: stored beats become older, or younger. */
export async function stepClock(query: Query, ms: number): Promise<void> {
  const text = `update fleetline.pods set beat_at = beat_at - $1::float8 * interval '1 ms' where state <> 'dead'`
  await query(text, [ms])
}

/** Marks a pod as dead, as a leader does after a ttl of silence. No test of the gate waits that long. */
export async function bury(database: Transactions, pod: number): Promise<void> {
  const text = `update fleetline.pods set state = 'dead', ended_at = clock_timestamp() where id = $1 and state <> 'dead'`
  valueOf(await database.transaction((query) => query(text, [pod])), 'not buried')
}
