// Fleets in the test's own process, and the rows of pods as tests read and age them: by SQL, beside the code under test.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createFleet, type Fleet } from '../../src/fleet/fleet.ts'
import { list, type PodRow } from '../../src/fleet/pods.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { createLog } from '../../src/telemetry/log.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from './cleanup.ts'
import { eventually } from './eventually.ts'

const HOUR_MS = 3_600_000

type Transactions = Pick<Database, 'transaction'>

/** Started, with a ttl that no busy machine meets. */
export async function fleetOn(
  t: TestContext,
  url: string,
  database: Transactions,
  options: Partial<Parameters<typeof createFleet>[0]> = {},
): Promise<Fleet> {
  const fleet = createFleet({
    url,
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

/** As if its last beat were older by so much; without an id, that of every pod. */
export async function age(query: Query, ms: number, pod: number | null = null): Promise<void> {
  const text = `
    update fleetline.pods set beat_at = beat_at - $1::float8 * interval '1 ms' where id = coalesce($2, id)`
  await query(text, [ms, pod])
}

/** Makes the beat of a pod old, again if a beat that was under way came after it, until its leader has buried it. */
export async function untilBuried(
  database: Transactions,
  pod: number,
  details?: () => string,
): Promise<void> {
  const check = async () => {
    valueOf(await database.transaction((query) => age(query, HOUR_MS, pod)), 'not aged')
    assert.equal(await stateOf(database, pod), 'dead')
  }
  await eventually(check, { what: `the burial of pod ${pod}`, ...(details ? { details } : {}) })
}
