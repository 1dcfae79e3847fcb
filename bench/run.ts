// npm run bench -- NAME [--quick] [--json]: ours against the bare engine and the peers, interleaved in one run. Loopback only, bounded
// in count and time; what it started it ends. Rates are published, never judged: only what was lost makes it red.
// With --json the last line is one JSON object.
import { parseArgs } from 'node:util'
import { appendBench } from './append.ts'
import { machineBench } from './machine.ts'
import { queueBench } from './queue.ts'
import { throttleBench } from './throttle.ts'
import { turnBench } from './turn.ts'
import { machineLine, publish, tableOf, type Bench } from './support/report.ts'

const BENCHES: Readonly<Record<string, Bench>> = {
  append: appendBench,
  machine: machineBench,
  queue: queueBench,
  throttle: throttleBench,
  turn: turnBench,
}

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
try {
  const report = await bench({ quick: values.quick }, { after: (close) => closings.push(close) })
  const published = publish({ bench: name, quick: values.quick }, report)
  console.log(`${machineLine(published)}\n\n${tableOf(report.table)}`)
  if (values.json) console.log(JSON.stringify(published))
  else console.log(`\n${JSON.stringify({ ...published.ratios, ...published.times, ...published.counts })}`)
  process.exitCode = report.faults.length === 0 ? 0 : 1
  for (const fault of report.faults) console.error(`FAULT: ${fault}`)
} finally {
  for (const close of closings.toReversed()) await close()
}
