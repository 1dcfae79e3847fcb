// What nobody runs breaks unseen: every bench, at its smallest size and without peers. No figure is judged here, only that
// it runs to its end and loses nothing.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BENCHES } from '../../bench/benches.ts'
import { DURABLE } from '../../bench/support/report.ts'
import { startCluster } from '../../packages/server/test/support/cluster.ts'

// One server for all of them, with what any of them asks for; how durable it is, a proof asks.
const cluster = await startCluster(15, {
  ...DURABLE,
  fsync: 'off',
  shared_preload_libraries: 'pg_stat_statements',
})
after(() => cluster.stop())

for (const [name, bench] of Object.entries(BENCHES)) {
  test(`bench ${name} runs, and loses nothing`, async (t) => {
    const { faults, table } = await bench({ size: 'smoke', startServer: async () => cluster }, t)
    assert.deepEqual(faults, [])
    assert.ok(table.length > 1, 'it has measured something')
  })
}
