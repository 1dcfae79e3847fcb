// Compares machines with the bare engine and with DBOS: tasks of three transitions that return at once, 64 at a time, in one
// process for each system. The time runs from the first enqueue until SQL shows no unfinished task. Ours and bare enqueue in
// lists, DBOS one by one. Then the bench measures what a resume costs, for ours alone. A pod takes over tasks at transition 30,
// or at transition 3, and they end there. Every step that ran is counted by number, and PostgreSQL counts the statements.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Scope } from '../packages/server/test/support/cleanup.ts'
import type { Cluster } from '../packages/server/test/support/cluster.ts'
import { LONG, LONG_STEPS, STEPS } from './ours/machine.ts'
import { missed, openField, type Field } from './support/field.ts'
import { nowMs } from './support/now.ts'
import { rounded, versionOf, type Bench, type Report, type Size as BenchSize } from './support/report.ts'
import { medianOf, ratioOf, runRounds } from './support/rounds.ts'

const PEER = 'DBOS'
const ENTRANTS = [
  { name: 'ours', module: 'ours/machine.ts' },
  { name: 'bare', module: 'bare/machine.ts' },
  { name: PEER, module: 'peers/dbos.ts' },
] as const
const RESUMES = [
  { name: 'resumed at 3', position: 3 },
  { name: 'resumed at 30', position: 30 },
] as const

type Size = { readonly rounds: number; readonly tasks: number }
const SIZES: Readonly<Record<BenchSize, Size>> = {
  full: { rounds: 5, tasks: 10_000 },
  quick: { rounds: 3, tasks: 2_000 },
  smoke: { rounds: 1, tasks: 200 },
}

type Result = {
  /** Transitions, or resumed tasks, per second. */
  readonly rate: number
  readonly lost: number
  readonly duplicated: number
  /** All statements that the server ran meanwhile, except those of this bench. */
  readonly statements: number
  readonly walBytes: number
}
type Cell = {
  readonly cluster: Cluster
  readonly module: string
  readonly database: string
  readonly tasks: number
  readonly isTidy: boolean
}

export const machineBench: Bench = async ({ size, startServer }, scope) => {
  if (size !== 'smoke' && !existsSync(join(import.meta.dirname, 'node_modules/@dbos-inc')))
    throw new Error('The peers are not installed: run npm ci --prefix bench --ignore-scripts')
  const { rounds, tasks } = SIZES[size]
  const entrants = ENTRANTS.filter(({ name }) => name !== PEER || size !== 'smoke')
  const resumes = size === 'smoke' ? RESUMES.slice(1) : RESUMES
  const cluster = await startServer({ shared_preload_libraries: 'pg_stat_statements' })
  await cluster.admin('create extension pg_stat_statements')
  const cellOf = (name: string, file: string, round: number): Cell => ({
    cluster,
    module: join(import.meta.dirname, file),
    database: `${name.toLowerCase().replaceAll(' ', '_')}_${round}`,
    tasks,
    isTidy: size !== 'smoke',
  })
  const cells = [
    ...entrants.map(({ name, module }) => ({
      name,
      run: (round: number) => pass(scope, cellOf(name, module, round)),
    })),
    ...resumes.map(({ name, position }) => ({
      name,
      run: (round: number) => resume(scope, cellOf(name, ENTRANTS[0].module, round), position),
    })),
  ]
  return reportOf(await runRounds(cells, rounds), tasks, await versionOf(cluster))
}

async function pass(scope: Scope, { cluster, tasks, ...place }: Cell): Promise<Result> {
  const field = await openField(scope, cluster, place)
  const [worker] = await field.start(1)
  await worker!.order('work', 'drain')
  await worker!.order('enqueueAll', -100, 100) // warm-up: opens connections and makes plans
  await field.untilEmpty()
  await field.tidy()
  const spent = await spending(cluster, place.database)
  const startMs = nowMs()
  await worker!.order('enqueueAll', 0, tasks)
  await field.untilEmpty()
  const ms = nowMs() - startMs
  const costs = await spent()
  const { ran } = await worker!.order('stop')
  await worker!.end()
  await field.close()
  const counted = ran.filter((number) => number >= 0)
  const steps = tasks * STEPS.length
  return { rate: steps / (ms / 1_000), ...missed(counted, steps), ...costs }
}

/** Measures from the first task that runs until none is unfinished. The start of the pod is not included. */
async function resume(scope: Scope, { cluster, tasks, ...place }: Cell, position: number): Promise<Result> {
  const field = await openField(scope, cluster, place)
  await cluster.admin(standing(tasks, position), place.database)
  await field.tidy()
  const spent = await spending(cluster, place.database)
  const { ran, ms } = await drained(field)
  const costs = await spent()
  await field.close()
  return { rate: tasks / (ms / 1_000), ...missed(ran, tasks), ...costs }
}

async function drained(field: Field): Promise<{ readonly ran: number[]; readonly ms: number }> {
  const [worker] = await field.start(1)
  await worker!.order('work', 'drain')
  await field.untilEmpty()
  const endMs = nowMs()
  const { ran, atMs } = await worker!.order('stop')
  await worker!.end()
  return { ran, ms: endMs - atMs[0]! }
}

/** Tasks of the long machine that have `position` transitions behind them, each with an output of some size. */
function standing(tasks: number, position: number): string {
  const entry = () => ({
    value: { number: 1, text: randomBytes(25).toString('hex') }, // random, so that it is not compressed away
    at: '2026-01-01T00:00:00.000Z',
    attempt: 1,
    ms: 1,
  })
  const carry = Object.fromEntries(LONG_STEPS.slice(0, position).map((name) => [name, entry()]))
  return `
    do $$ begin
      perform fleetline.enqueue('default', '${LONG}', jsonb_build_object('number', n)) from generate_series(0, ${tasks - 1}) n;
      update fleetline.tasks set position = ${position}, carry = '${JSON.stringify(carry)}';
    end $$`
}

const CALLS = `
  select coalesce(sum(s.calls), 0)::int as calls
    from pg_stat_statements s join pg_database d on d.oid = s.dbid
   where s.query not like '%unfinished' and d.datname = `

/** Resolves to a function that reads what was spent since. */
async function spending(
  cluster: Cluster,
  database: string,
): Promise<() => Promise<Pick<Result, 'statements' | 'walBytes'>>> {
  const read = async () => {
    const { rows } = await cluster.admin(`${CALLS}'${database}'`)
    const lsn = await cluster.admin(`select pg_current_wal_insert_lsn() - '0/0' as bytes`)
    return { statements: Number(rows[0]!['calls']), walBytes: Number(lsn.rows[0]!['bytes']) }
  }
  const before = await read()
  return async () => {
    const after = await read()
    return {
      statements: after.statements - before.statements,
      walBytes: after.walBytes - before.walBytes,
    }
  }
}

function reportOf(results: ReadonlyMap<string, readonly Result[]>, tasks: number, postgres: string): Report {
  const rates = (name: string) => results.get(name)!.map(({ rate }) => rate)
  const all = [...results.values()].flat()
  const total = (value: (result: Result) => number) => all.reduce((sum, one) => sum + value(one), 0)
  const [lost, duplicated] = [total((one) => one.lost), total((one) => one.duplicated)]
  const each = statementsOf(results.get('ours')!, tasks * STEPS.length)
  return {
    ratios: {
      ...(results.has(PEER) && { steps_vs_dbos: ratioOf(rates('ours'), rates(PEER)) }),
      steps_vs_bare: ratioOf(rates('ours'), rates('bare')),
      ...(results.has(RESUMES[0].name) && {
        resume_long_vs_short: ratioOf(rates(RESUMES[1].name), rates(RESUMES[0].name)),
      }),
    },
    counts: { statements_per_transition: each, lost, duplicated },
    table: [HEAD, ...Array.from(results, ([name, rounds]) => rowOf(name, rounds, tasks))],
    faults: lost + duplicated === 0 ? [] : [`${lost} tasks lost, ${duplicated} run twice`],
    postgres,
  }
}

function statementsOf(rounds: readonly Result[], units: number): number {
  return rounded(medianOf(rounds.map(({ statements }) => statements / units)))
}

const HEAD = ['cell', 'a second', 'least–most', 'statements each', 'WAL bytes each', 'lost', 'duplicated']

/** Costs are per transition, or per resumed task. */
function rowOf(name: string, rounds: readonly Result[], tasks: number): (string | number)[] {
  const units = ENTRANTS.some((entrant) => entrant.name === name) ? tasks * STEPS.length : tasks
  const rates = rounds.map(({ rate }) => Math.round(rate))
  return [
    name,
    medianOf(rates),
    `${Math.min(...rates)}–${Math.max(...rates)}`,
    statementsOf(rounds, units),
    Math.round(medianOf(rounds.map(({ walBytes }) => walBytes / units))),
    rounds.reduce((sum, { lost }) => sum + lost, 0),
    rounds.reduce((sum, { duplicated }) => sum + duplicated, 0),
  ]
}
