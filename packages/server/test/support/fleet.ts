// Fleets in the test's own process, and the rows of pods as tests read and change them: by SQL, beside the code under test.
import type { TestContext } from 'node:test'
import { createFleet, type Fleet } from '../../src/fleet/fleet.ts'
import { list, type PodRow } from '../../src/fleet/pods.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from './cleanup.ts'

type Transactions = Pick<Database, 'transaction'>

/** Started, with a ttl that no busy machine meets. */
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

/** As if the clock of the database had been set forward by so much, or back: all that is stored is older, or younger. */
export async function stepClock(query: Query, ms: number): Promise<void> {
  const text = `update fleetline.pods set beat_at = beat_at - $1::float8 * interval '1 ms' where state <> 'dead'`
  await query(text, [ms])
}

/** As a leader does after a ttl of silence, for which no test of the gate waits. */
export async function bury(database: Transactions, pod: number): Promise<void> {
  const text = `update fleetline.pods set state = 'dead', ended_at = clock_timestamp() where id = $1 and state <> 'dead'`
  valueOf(await database.transaction((query) => query(text, [pod])), 'not buried')
}
