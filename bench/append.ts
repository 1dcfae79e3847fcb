// Appends over HTTP through one pod, compared with the same batched statements on the bare engine: 64 writers, fsync on. The
// writers run in this process. So does the bare engine with its driver; ours runs in the pod's process. Afterwards the bench
// looks for every acknowledged message in the log.
import { randomBytes } from 'node:crypto'
import { formatId, uuidV7 } from '@fleetline/protocol'
import { migrateUp } from '../packages/server/src/store/migrate.ts'
import { atEnd, type Scope } from '../packages/server/test/support/cleanup.ts'
import type { Cluster } from '../packages/server/test/support/cluster.ts'
import { startPod, type RunningPod } from '../packages/server/test/support/pods.ts'
import { openBareEngine } from './bare/append.ts'
import { closedLoop, type Acked, type Measured } from './support/closed-loop.ts'
import { openHttpWriter } from './support/http-writer.ts'
import { makeKey, UNLIMITED } from './support/key.ts'
import { rounded, versionOf, type Bench, type Report, type Size } from './support/report.ts'
import { medianOf, quantileOf, ratioOf, runRounds } from './support/rounds.ts'

const WRITERS = 64
const STORED_EACH = 3
const PARTS = [{ type: 'text', text: 'm'.repeat(512) }]
const DATABASE = 'append'
type Times = {
  readonly warmMs: number
  readonly measuredMs: number
  readonly rounds: number
  readonly stored: number
}
const SIZES: Readonly<Record<Size, Times>> = {
  full: { warmMs: 2_000, measuredMs: 15_000, rounds: 5, stored: 10_000 },
  quick: { warmMs: 500, measuredMs: 4_000, rounds: 4, stored: 10_000 },
  smoke: { warmMs: 50, measuredMs: 200, rounds: 1, stored: 100 },
}

type Result = Measured & { readonly coresOfPod: number; readonly coresOfWriters: number }

export const appendBench: Bench = async ({ size, startServer }, scope) => {
  const { stored, ...times } = SIZES[size]
  const cluster = await startServer()
  await cluster.admin(`create database ${DATABASE}`)
  const url = cluster.urlOf(DATABASE)
  await migrateUp({ databaseUrl: url })
  const sessions = await fill(cluster, stored)
  const pod = await startPod(scope, url, { FLEETLINE_REQUESTS_PER_SOCKET: '1000000', ...UNLIMITED })
  const key = await makeKey(url, ['sessions:write'])
  const run = { sessions, ...times }
  const results = await runRounds(
    [
      { name: 'ours', run: (round) => ours(scope, { pod, key }, { ...run, prefix: `ours-${round}` }) },
      { name: 'bare', run: (round) => bare(url, pod, { ...run, prefix: `bare-${round}` }) },
    ],
    times.rounds,
  )
  return reportOf(cluster, results)
}

async function fill(cluster: Cluster, count: number): Promise<string[]> {
  const run = (text: string) => cluster.admin(text, DATABASE)
  const sessions = Array.from({ length: count }, () => uuidV7(Date.now(), randomBytes(10)))
  await run(`
    insert into fleetline.sessions (tenant, id, head)
    select 1, id, ${STORED_EACH} from unnest('{${sessions.join()}}'::uuid[]) id`)
  await run(`
    insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
    select now(), 1, s.id, n, gen_random_uuid(), 0, 0, 0, 'stored-' || n, '${JSON.stringify({ parts: PARTS })}'
      from fleetline.sessions s, generate_series(1, ${STORED_EACH}) n`)
  await run('vacuum analyze')
  await run('checkpoint')
  return sessions
}

type Run = Omit<Parameters<typeof closedLoop>[0], 'senders'>

type Opened = { readonly pod: RunningPod; readonly key: string }

async function ours(scope: Scope, { pod, key }: Opened, run: Run): Promise<Result> {
  const writers = await Promise.all(Array.from({ length: WRITERS }, () => openHttpWriter(pod.gateway, key)))
  atEnd(scope, () => writers.forEach((writer) => writer.close()))
  const senders = writers.map((writer) => async (session: string, id: string) => {
    const path = `/v1/sessions/${formatId('session', 0, session)}/messages`
    const { seq } = await writer.post(path, JSON.stringify({ message: { id, parts: PARTS } }))
    return seq as number
  })
  const result = await withCores(pod, () => closedLoop({ ...run, senders }))
  writers.forEach((writer) => writer.close())
  return result
}

async function bare(url: string, pod: RunningPod, run: Run): Promise<Result> {
  const engine = await openBareEngine(url)
  try {
    const send = (session: string, id: string) =>
      engine.append({ session, id, body: JSON.stringify({ parts: PARTS }) })
    return await withCores(pod, () => closedLoop({ ...run, senders: Array(WRITERS).fill(send) }))
  } finally {
    await engine.close()
  }
}

/** Also measures how many cores the pod and this process kept busy. */
async function withCores(pod: RunningPod, work: () => Promise<Measured>): Promise<Result> {
  const [startMs, podS, own] = [performance.now(), await cpuSecondsOf(pod), process.cpuUsage()]
  const measured = await work()
  const seconds = (performance.now() - startMs) / 1000
  const { user, system } = process.cpuUsage(own)
  return {
    ...measured,
    coresOfPod: ((await cpuSecondsOf(pod)) - podS) / seconds,
    coresOfWriters: (user + system) / 1e6 / seconds,
  }
}

async function cpuSecondsOf({ admin }: RunningPod): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  return Number(/^process_cpu_seconds_total (\S+)/m.exec(text)![1])
}

async function reportOf(cluster: Cluster, results: ReadonlyMap<string, readonly Result[]>): Promise<Report> {
  const all = [...results.values()].flat()
  const lost = await lostOf(
    cluster,
    all.flatMap(({ acked }) => acked),
  )
  const holes = await holesIn(cluster)
  const rates = (name: string) => results.get(name)!.map(({ rate }) => rate)
  return {
    ratios: { vs_bare_64: ratioOf(rates('ours'), rates('bare')) },
    counts: { acked: all.reduce((sum, { acked }) => sum + acked.length, 0), lost, holes },
    table: [
      ['cell', 'appends/s', 'least–most', 'p50 ms', 'p99 ms', 'cores: pod', 'cores: writers'],
      ...Array.from(results, ([name, rounds]) => rowOf(name, rounds)),
    ],
    faults: lost + holes === 0 ? [] : [`${lost} acknowledged messages lost, ${holes} sessions with holes`],
    postgres: await versionOf(cluster),
  }
}

function rowOf(name: string, rounds: readonly Result[]): (string | number)[] {
  const rates = rounds.map(({ rate }) => rate)
  const latenciesMs = rounds.flatMap((round) => round.latenciesMs)
  const median = (of: (round: Result) => number) => medianOf(rounds.map(of)).toFixed(2)
  return [
    `${name}, ${WRITERS} writers`,
    Math.round(medianOf(rates)),
    `${Math.round(Math.min(...rates))}–${Math.round(Math.max(...rates))}`,
    rounded(quantileOf(latenciesMs, 0.5)),
    rounded(quantileOf(latenciesMs, 0.99)),
    name === 'ours' ? median(({ coresOfPod }) => coresOfPod) : '–',
    median(({ coresOfWriters }) => coresOfWriters),
  ]
}

/** How many acknowledged messages are not in the log at the acknowledged seq. */
async function lostOf(cluster: Cluster, acked: readonly Acked[]): Promise<number> {
  const { rows } = await cluster.admin(
    `select concat_ws(' ', session, id, seq) as entry from fleetline.messages where seq > ${STORED_EACH}`,
    DATABASE,
  )
  const log = new Set(rows.map(({ entry }) => entry))
  return acked.filter(({ session, id, seq }) => !log.has(`${session} ${id} ${seq}`)).length
}

async function holesIn(cluster: Cluster): Promise<number> {
  const { rowCount } = await cluster.admin(
    `select s.id from fleetline.sessions s join fleetline.messages m on m.tenant = s.tenant and m.session = s.id
      group by s.id, s.head having count(*) <> s.head or max(m.seq) <> s.head`,
    DATABASE,
  )
  return rowCount ?? 0
}
