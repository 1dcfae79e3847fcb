// Compares the queue with the bare engine, and with graphile-worker and pg-boss in their best settings. It measures enqueues in
// bulk, single enqueues by 64 callers, drains by several processes, and the time from an enqueue in one process to the run in
// another. Every cell has a server with the same settings and a fresh database, with a vacuum and a checkpoint before it. A
// drain is over when SQL shows nothing unfinished. Runs are counted by task number, which shows losses and repeats.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Scope } from '../packages/server/test/support/cleanup.ts'
import type { Cluster } from '../packages/server/test/support/cluster.ts'
import type { ContestantProcess } from './support/contestant-processes.ts'
import { missed, openField, type Field } from './support/field.ts'
import { nowMs } from './support/now.ts'
import { rounded, versionOf, type Bench, type Report, type Size as BenchSize } from './support/report.ts'
import { medianOf, quantileOf, ratioOf, runRounds } from './support/rounds.ts'

const CALLERS = 64
const PEERS = ['graphile-worker', 'pg-boss'] as const
const ENTRANTS = [
  { name: 'ours', module: 'ours/queue.ts', processes: 2, isPeer: false },
  { name: 'bare', module: 'bare/queue.ts', processes: 2, isPeer: false },
  { name: PEERS[0], module: 'peers/graphile-worker.ts', processes: 4, isPeer: true },
  { name: PEERS[1], module: 'peers/pg-boss.ts', processes: 4, isPeer: true },
] as const
type Entrant = (typeof ENTRANTS)[number]

type Size = {
  readonly rounds: number
  /** The most that one contestant may have. */
  readonly processes: number
  readonly backlog: number
  readonly singlyMs: number
  readonly steady: { readonly count: number; readonly perSecond: number }
}
const SIZES: Readonly<Record<BenchSize, Size>> = {
  full: { rounds: 5, processes: 4, backlog: 50_000, singlyMs: 3_000, steady: { count: 300, perSecond: 100 } },
  quick: { rounds: 2, processes: 4, backlog: 6_000, singlyMs: 400, steady: { count: 30, perSecond: 100 } },
  smoke: { rounds: 1, processes: 1, backlog: 1_000, singlyMs: 50, steady: { count: 5, perSecond: 100 } },
}

type Result = {
  readonly bulkRate: number
  readonly drainRate: number
  readonly walBytesPerTask: number
  readonly lost: number
  readonly duplicated: number
  /** The bare engine has 0, and no latencies: it does not batch several callers, and nothing wakes it. */
  readonly singleRate: number
  readonly latenciesMs: readonly number[]
}
export const queueBench: Bench = async ({ size, startServer }, scope) => {
  if (size !== 'smoke' && !existsSync(join(import.meta.dirname, 'node_modules')))
    throw new Error('The peers are not installed: run npm ci --prefix bench --ignore-scripts')
  const entrants = ENTRANTS.filter(({ isPeer }) => !isPeer || size !== 'smoke')
  const cluster = await startServer()
  const cells = entrants.map((entrant) => ({
    name: entrant.name,
    run: (round: number) => measure(scope, { cluster, size: SIZES[size], entrant, round }),
  }))
  const results = await runRounds<Result>(cells, SIZES[size].rounds)
  return reportOf(results, await versionOf(cluster))
}

type Round = {
  readonly cluster: Cluster
  readonly size: Size
  readonly entrant: Entrant
  readonly round: number
}

async function measure(scope: Scope, { cluster, size, entrant, round }: Round): Promise<Result> {
  const isLive = entrant.name !== 'bare'
  const database = `${entrant.name.replace('-', '_')}_${round}`
  const field = await openField(scope, cluster, {
    module: join(import.meta.dirname, entrant.module),
    database,
    isTidy: size !== SIZES.smoke,
  })
  const [enqueuer] = (await field.start(1)) as [ContestantProcess]
  const latenciesMs = isLive ? await latency(field, size, enqueuer) : []
  await field.tidy()
  const fromLsn = await lsnOf(cluster)
  const bulk = await enqueuer.order('enqueueAll', 0, size.backlog)
  await field.tidy()
  const drained = await drain(field, size, Math.min(entrant.processes, size.processes))
  const walBytesPerTask = ((await lsnOf(cluster)) - fromLsn) / size.backlog
  await field.tidy()
  const singly = await enqueuer.order('enqueueSingly', 0, CALLERS, isLive ? size.singlyMs : 0)
  await enqueuer.order('stop')
  await enqueuer.end()
  await field.close()
  const [bulkRate, singleRate] = [size.backlog / (bulk.ms / 1_000), singly.count / (singly.ms / 1_000)]
  return { bulkRate, singleRate, latenciesMs, walBytesPerTask, ...drained }
}

/** Measures from the enqueue in one process to the run in another. */
async function latency(
  field: Field,
  { steady: { count, perSecond } }: Size,
  enqueuer: ContestantProcess,
): Promise<number[]> {
  const [worker] = (await field.start(1)) as [ContestantProcess]
  await worker.order('work', 'latency')
  await enqueuer.order('enqueueSteadily', -count, count, perSecond) // warm-up: opens connections and makes plans
  const { startedMs } = await enqueuer.order('enqueueSteadily', 0, count, perSecond)
  await field.untilEmpty()
  const { ran, atMs } = await worker.order('stop')
  await worker.end()
  const runAt = new Map(ran.map((number, index) => [number, atMs[index]!]))
  return startedMs.map((fromMs, number) => (runAt.get(number) ?? Infinity) - fromMs)
}

/** Measures from the first task that runs until none is unfinished. The start of the processes is not included. */
async function drain(
  field: Field,
  { backlog }: Size,
  processes: number,
): Promise<Pick<Result, 'drainRate' | 'lost' | 'duplicated'>> {
  const workers = await field.start(processes)
  await Promise.all(workers.map((worker) => worker.order('work', 'drain')))
  await field.untilEmpty()
  const endMs = nowMs()
  const stopped = await Promise.all(workers.map((worker) => worker.order('stop')))
  await Promise.all(workers.map((worker) => worker.end()))
  const ran = stopped.flatMap((one) => one.ran)
  const startMs = Math.min(...stopped.map(({ atMs }) => atMs[0] ?? Infinity))
  return { drainRate: backlog / ((endMs - startMs) / 1_000), ...missed(ran, backlog) }
}

async function lsnOf(cluster: Cluster): Promise<number> {
  const { rows } = await cluster.admin(`select pg_current_wal_insert_lsn() - '0/0' as bytes`)
  return Number(rows[0]!['bytes'])
}

function reportOf(results: ReadonlyMap<string, readonly Result[]>, postgres: string): Report {
  const ours = results.get('ours')!
  const total = (value: (result: Result) => number) => ours.reduce((sum, one) => sum + value(one), 0)
  const [lost, duplicated] = [total((one) => one.lost), total((one) => one.duplicated)]
  const walBytes = medianOf(ours.map((one) => one.walBytesPerTask))
  return {
    ratios: ratiosOf(results),
    counts: { lost, duplicated, wal_bytes_per_task: Math.round(walBytes) },
    table: [HEAD, ...Array.from(results, ([name, rounds]) => rowOf(name, rounds))],
    faults: lost + duplicated === 0 ? [] : [`${lost} tasks lost, ${duplicated} run twice`],
    postgres,
  }
}

function ratiosOf(results: ReadonlyMap<string, readonly Result[]>): Report['ratios'] {
  const of = (name: string, value: (result: Result) => number) => results.get(name)!.map(value)
  /** Compares ours with the better peer of each round. */
  const vsPeers = (value: (result: Result) => number, better: (...values: number[]) => number) => {
    const peers = PEERS.map((peer) => of(peer, value))
    const [ours, best] = [
      of('ours', value),
      peers[0]!.map((_, round) => better(...peers.map((one) => one[round]!))),
    ]
    return ratioOf(ours, best)
  }
  const drainRate = (result: Result) => result.drainRate
  const vsBare = { drain_vs_bare: ratioOf(of('ours', drainRate), of('bare', drainRate)) }
  if (!results.has(PEERS[0])) return vsBare
  return {
    ...vsBare,
    drain_vs_best_peer: vsPeers(drainRate, Math.max),
    enqueue_bulk_vs_best_peer: vsPeers(({ bulkRate }) => bulkRate, Math.max),
    enqueue_single_vs_best_peer: vsPeers(({ singleRate }) => singleRate, Math.max),
    latency_p50_vs_best_peer: vsPeers(({ latenciesMs }) => quantileOf(latenciesMs, 0.5), Math.min),
  }
}

const HEAD = [
  'system',
  'drained/s',
  'bulk/s',
  'singly/s',
  'p50 ms',
  'p99 ms',
  'WAL bytes/task',
  'lost',
  'duplicated',
]

function rowOf(name: string, rounds: readonly Result[]): (string | number)[] {
  const median = (value: (result: Result) => number) => Math.round(medianOf(rounds.map(value)))
  const latenciesMs = rounds.flatMap((round) => round.latenciesMs)
  const isBare = latenciesMs.length === 0
  return [
    name,
    median(({ drainRate }) => drainRate),
    median(({ bulkRate }) => bulkRate),
    isBare ? '–' : median(({ singleRate }) => singleRate),
    ...[0.5, 0.99].map((share) => (isBare ? '–' : rounded(quantileOf(latenciesMs, share)))),
    median(({ walBytesPerTask }) => walBytesPerTask),
    rounds.reduce((total, { lost }) => total + lost, 0),
    rounds.reduce((total, { duplicated }) => total + duplicated, 0),
  ]
}
