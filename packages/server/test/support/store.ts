// The store's parts as tests open them: with limits that no busy machine meets, closed at the end of the test.
import type { TestContext } from 'node:test'
import { systemClock } from '../../src/lib/clock.ts'
import { createDatabase, type Database } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from './cleanup.ts'

export async function openDatabase(
  t: TestContext,
  url: string,
  { stopMs = 60_000, lockTimeoutMs = 60_000 } = {},
): Promise<Database> {
  const database = createDatabase({
    url,
    poolSize: 4,
    transactionDeadlineMs: 120_000,
    lockTimeoutMs,
    stopMs,
    clock: systemClock(),
    metrics: createMetrics(),
  })
  atEnd(t, () => database.stop())
  await database.start()
  return database
}
