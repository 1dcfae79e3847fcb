// npm run bench -- NAME [--quick] [--json]: compares ours with the bare engine and the peers, interleaved in one run. It uses
// loopback only, is bounded in count and time, and ends everything that it started. Rates are published, never judged. Only
// faults, such as a lost message, make it red. With --json the last line is one JSON object.
import { parseArgs } from 'node:util'
import { atEnd } from '../packages/server/test/support/cleanup.ts'
import { startCluster } from '../packages/server/test/support/cluster.ts'
import { BENCHES } from './benches.ts'
import { DURABLE, machineLine, publish, tableOf, type BenchOptions } from './support/report.ts'

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean', default: false }, json: { type: 'boolean', default: false } },
})
const [name = ''] = positionals
const bench = BENCHES[name]
if (!bench) {
  console.error(`npm run bench -- NAME [--quick] [--json], where NAME is ${Object.keys(BENCHES).join(', ')}`)
  process.exit(2)
}
const closings: (() => unknown)[] = []
const scope = { after: (close: () => unknown) => void closings.push(close) }
const startServer: BenchOptions['startServer'] = async (settings) => {
  const cluster = await startCluster(15, { ...DURABLE, ...settings })
  atEnd(scope, () => cluster.stop())
  return cluster
}
try {
  const report = await bench({ size: values.quick ? 'quick' : 'full', startServer }, scope)
  const published = publish({ bench: name, quick: values.quick }, report)
  console.log(`${machineLine(published)}\n\n${tableOf(report.table)}`)
  if (values.json) console.log(JSON.stringify(published))
  else console.log(`\n${JSON.stringify({ ...published.ratios, ...published.times, ...published.counts })}`)
  process.exitCode = report.faults.length === 0 ? 0 : 1
  for (const fault of report.faults) console.error(`FAULT: ${fault}`)
} finally {
  for (const close of closings.toReversed()) await close()
}
