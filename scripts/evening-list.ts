// The list of everything that the gate does not run. The evening runs all of it once, the nightly workflow many times. Every test
// in test/proof/ and every bench in bench/benches.ts is included, so none can be forgotten.
//   node scripts/evening-list.ts    prints one line of JSON for the workflow
import { globSync } from 'node:fs'
import { basename, join } from 'node:path'
import { BENCHES } from '../bench/benches.ts'

const ROOT = join(import.meta.dirname, '..')
const named = (pattern: string) =>
  globSync(pattern, { cwd: ROOT })
    .map((path) => basename(path, '.test.ts'))
    .toSorted()

export const PROOFS: readonly string[] = named('packages/*/test/proof/*.test.ts')
export const BENCH_NAMES: readonly string[] = Object.keys(BENCHES)

// Tests of the gate that start processes: the gate runs each once, the nightly workflow many times.
const REPEATED: readonly string[] = [
  ...named('packages/*/test/fault/*.test.ts').map((name) => `fault/${name}`),
  'append',
  'events',
  'hints',
  'migrate',
  'pod',
  'replay',
  'transaction',
]

// The nightly workflow runs each fifty times, except those that take long by themselves.
const NIGHTLY_RUNS: Readonly<Record<string, number>> = {
  agents: 1,
  'ai-sdk': 1,
  cuts: 5,
  deploy: 3,
  followers: 1,
  'first-run': 1,
  'postgres-18': 1,
  'first-reply': 10,
  proxies: 10,
  'tasks-kill': 5,
  'turn-kill': 5,
  stop: 5,
}

if (import.meta.main) {
  const tests = [...PROOFS, ...REPEATED].map((name) => ({ name, runs: NIGHTLY_RUNS[name] ?? 50 }))
  console.log(JSON.stringify({ tests, benches: BENCH_NAMES }))
}
