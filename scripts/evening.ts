// npm run evening [-- NAME …]: runs what the gate does not: every proof once, every bench quickly, the page in Chromium, and the
// documentation site, built and opened in Chromium. Takes about half an hour, one step after the other. With names, only those. A red
// step shows the end of its output; the rest goes on. The last lines are a table and one JSON verdict.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { BENCH_NAMES, PROOFS } from './evening-list.ts'

type Step = { readonly name: string; readonly words: readonly string[] }
type Done = Step & { readonly isGreen: boolean; readonly seconds: number; readonly verdict: string }

const ROOT = join(import.meta.dirname, '..')
const SHOWN = 4_000 // characters of a red step's output
const STEPS: readonly Step[] = [
  ...PROOFS.map((name) => ({ name: `proof ${name}`, words: ['proof', '--', name, '--quick'] })),
  ...BENCH_NAMES.map((name) => ({
    name: `bench ${name}`,
    words: ['bench', '--', name, '--quick', '--json'],
  })),
  { name: 'browser', words: ['test:browser'] },
  { name: 'site', words: ['site', '--', '--test'] },
]

const wanted = process.argv.slice(2)
const steps = STEPS.filter(({ name }) => wanted.length === 0 || wanted.includes(name.split(' ').at(-1)!))
for (const folder of ['bench', 'site'])
  if (!existsSync(join(ROOT, folder, 'node_modules')))
    spawnSync('npm', ['ci', '--prefix', folder, '--ignore-scripts'], { cwd: ROOT, stdio: 'inherit' })

const done: Done[] = []
for (const step of steps) {
  const result = await run(step)
  done.push(result)
  console.log(`${result.isGreen ? 'ok' : 'RED'}: ${result.name}, ${result.seconds} s`)
}
console.log(
  ['', '| step | outcome | seconds | figures |', '|---|---|---|---|', ...done.map(rowOf)].join('\n'),
)
const failed = done.filter(({ isGreen }) => !isGreen).length
const evening = Object.fromEntries(done.map(({ name, isGreen, seconds }) => [name, { isGreen, seconds }]))
console.log(JSON.stringify({ evening, failed }))
process.exitCode = failed === 0 && done.length > 0 ? 0 : 1

function run(step: Step): Promise<Done> {
  const { promise, resolve } = Promise.withResolvers<Done>()
  const startMs = performance.now()
  const child = spawn('npm', ['run', '--silent', ...step.words], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [output, printed] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
    printed += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text))
  child.once('close', (code) => {
    if (code !== 0) console.log(output.slice(-SHOWN))
    const verdict = printed.trimEnd().split('\n').at(-1) ?? ''
    resolve({ ...step, isGreen: code === 0, seconds: seconds(startMs), verdict })
  })
  return promise
}

function seconds(sinceMs: number): number {
  return Math.round((performance.now() - sinceMs) / 1000)
}

function rowOf({ name, isGreen, seconds, verdict }: Done): string {
  return `| ${name} | ${isGreen ? 'green' : 'RED'} | ${seconds} | ${figuresOf(verdict)} |`
}

/** For a proof, the medians of its figures; for a bench, its ratios, times and counts. */
function figuresOf(verdict: string): string {
  try {
    const { figures, ratios, times, counts } = JSON.parse(verdict) as Record<string, Record<string, unknown>>
    const medianOf = (value: unknown) => (value as { readonly p50?: number }).p50 ?? value
    const shown = Object.entries({ ...figures, ...ratios, ...times, ...counts })
    return shown.map(([name, value]) => `${name} ${String(medianOf(value))}`).join(' · ')
  } catch {
    return ''
  }
}
