// Measures how well a fleet uses a provider whose limit it does not know. A simulator in virtual time runs the product's own
// functions, and compares them with a fixed limit and with plain AIMD in each pod. Goodput is the number of completed calls,
// divided by the number that an oracle completes with the same calls. Use seeds 1 to 10 while you change the rules: the
// published results come from other seeds. The charts show the first of those.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rounded, type Bench, type Report } from './support/report.ts'
import { medianOf } from './support/rounds.ts'
import { chartOf } from './throttle/chart.ts'
import { AIMD, FIXED, ORACLE, type Entrant } from './throttle/entrant.ts'
import { simulateBurst } from './throttle/burst.ts'
import { OURS, OURS_AWAITED } from './throttle/ours.ts'
import { simulate } from './throttle/simulate.ts'
import { VARIANTS, WORKLOADS, type Variant, type Workload } from './throttle/workloads.ts'

const ENTRANTS: readonly Entrant[] = [OURS, AIMD, FIXED]
const BURSTS: readonly Entrant[] = [OURS_AWAITED, OURS, AIMD, FIXED]
const BURST_LIMIT = 40
const FIRST_SEED = 101
const SEEDS = { full: 30, quick: 3, smoke: 1 }
const CHARTS = join(import.meta.dirname, 'charts')

type Cell = {
  readonly workload: string
  readonly variant: string
  readonly entrant: string
  /** Relative to the oracle, one value for each seed. */
  readonly goodput: readonly number[]
  readonly refusedPercent: readonly number[]
  readonly insideRetryAfter: number
}

export const throttleBench: Bench = async ({ size }) => {
  const seeds = Array.from({ length: SEEDS[size] }, (_, n) => FIRST_SEED + n)
  const workloads = size === 'smoke' ? WORKLOADS.slice(0, 1) : WORKLOADS
  const cells = workloads.flatMap((workload) =>
    VARIANTS.flatMap((variant) => cellsOf(workload, variant, seeds)),
  )
  if (size !== 'smoke') for (const workload of workloads) draw(workload)
  return reportOf(cells, seeds)
}

function cellsOf(workload: Workload, variant: Variant, seeds: readonly number[]): Cell[] {
  const best = seeds.map((seed) => simulate(workload, variant, ORACLE, seed).done)
  return ENTRANTS.map((entrant) => {
    const runs = seeds.map((seed) => simulate(workload, variant, entrant, seed))
    return {
      workload: workload.name,
      variant: variant.name,
      entrant: entrant.name,
      goodput: runs.map(({ done }, n) => done / best[n]!),
      refusedPercent: runs.map(({ refused, sent }) => (100 * refused) / sent),
      insideRetryAfter: runs.reduce((sum, run) => sum + run.insideRetryAfter, 0),
    }
  })
}

function draw(workload: Workload): void {
  mkdirSync(CHARTS, { recursive: true })
  const shown = ENTRANTS.map((entrant) => {
    return { name: entrant.name, run: simulate(workload, VARIANTS[0]!, entrant, FIRST_SEED) }
  })
  writeFileSync(join(CHARTS, `throttle-${workload.name.toLowerCase()}.svg`), chartOf(workload, shown))
}

function reportOf(cells: readonly Cell[], seeds: readonly number[]): Report {
  const bursts = BURSTS.map((entrant) => burstOf(entrant, seeds))
  const of = (entrant: string, variant: string) =>
    cells.filter((cell) => cell.entrant === entrant && cell.variant === variant)
  const least = (some: readonly Cell[]) => Math.min(...some.map(({ goodput }) => medianOf(goodput)))
  const most = (some: readonly Cell[]) => Math.max(...some.map((cell) => medianOf(cell.refusedPercent)))
  const [free, costs] = VARIANTS.map(({ name }) => name) as [string, string]
  const inside = [...of('ours', free), ...of('ours', costs)].reduce(
    (sum, one) => sum + one.insideRetryAfter,
    0,
  )
  return {
    ratios: {
      goodput_min_w1_w4: least(of('ours', free)),
      goodput_min_w1_w4_retry_after: least(of('ours', costs)),
      rejected_max_percent: most(of('ours', free)),
      rejected_max_percent_retry_after: most(of('ours', costs)),
      aimd_goodput_min: least(of('AIMD', free)),
      aimd_rejected_max_percent: most(of('AIMD', free)),
      aimd_goodput_min_retry_after: least(of('AIMD', costs)),
      fixed_goodput_min: least(of('fixed', free)),
      fixed_rejected_max_percent: most(of('fixed', free)),
      fixed_goodput_min_retry_after: least(of('fixed', costs)),
      ...Object.fromEntries(
        bursts.map((one) => [`w0_refused_later_percent_${one.slug}`, one.refusedLaterPercent]),
      ),
    },
    times: Object.fromEntries(bursts.map((one) => [`w0_last_begun_ms_${one.slug}`, one.lastBegunMs])),
    counts: {
      sends_inside_retry_after: inside,
      seeds: seeds.length,
      ...Object.fromEntries(bursts.map((one) => [`w0_refused_at_first_${one.slug}`, one.refusedAtFirst])),
    },
    table: tableOf(cells),
    faults: inside === 0 ? [] : [`${inside} calls were sent inside a Retry-After`],
  }
}

/** Without a limit: how long the last of many calls waits. With one: the rejections in the first burst, and those after it. */
function burstOf(entrant: Entrant, seeds: readonly number[]) {
  const free = seeds.map((seed) => simulateBurst(entrant, Number.POSITIVE_INFINITY, seed))
  const limited = seeds.map((seed) => simulateBurst(entrant, BURST_LIMIT, seed))
  return {
    slug: entrant.name.replace(/\W+/g, '_').toLowerCase(),
    lastBegunMs: medianOf(free.map((one) => one.lastBegunMs)),
    refusedAtFirst: medianOf(limited.map((one) => one.refusedAtFirst)),
    refusedLaterPercent: medianOf(limited.map((one) => one.refusedLaterPercent)),
  }
}

function tableOf(cells: readonly Cell[]): Report['table'] {
  const head = [
    'workload',
    'a refusal costs',
    ...ENTRANTS.flatMap(({ name }) => [name, `${name}: refused %`]),
  ]
  const groups = Map.groupBy(cells, ({ workload, variant }) => `${workload} ${variant}`)
  const rows = [...groups.values()].map((group) => [
    group[0]!.workload,
    group[0]!.variant,
    ...group.flatMap(({ goodput, refusedPercent }) => [within(goodput), within(refusedPercent)]),
  ])
  return [head, ...rows]
}

/** The median, and the range without the lowest and the highest 2.5 %. With 20 values or fewer, the range covers all. */
function within(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number) => rounded(sorted[Math.round(part * (sorted.length - 1))]!)
  return `${rounded(medianOf(values))} (${at(0.025)}–${at(0.975)})`
}
