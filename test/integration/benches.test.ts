// Runs every bench at its smallest size and without peers, because code that nobody runs breaks unseen. The test judges no
// figure: a bench has to run to its end and lose nothing.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BENCHES } from '../../bench/benches.ts'
import { DURABLE } from '../../bench/support/report.ts'
import { inMemory, startCluster } from '../../packages/server/test/support/cluster.ts'

// One server for all benches, with the settings that any of them needs. Proofs test how durable it is.
const cluster = await startCluster(
  15,
  { ...DURABLE, fsync: 'off', shared_preload_libraries: 'pg_stat_statements' },
  inMemory(),
)
after(() => cluster.stop())

for (const [name, bench] of Object.entries(BENCHES)) {
  test(`bench ${name} runs, and loses nothing`, async (t) => {
    const { faults, table } = await bench({ size: 'smoke', startServer: async () => cluster }, t)
    assert.deepEqual(faults, [])
    assert.ok(table.length > 1, `${table.length} lines: it has measured nothing`)
  })
}
