// What sockets cost, on one pod and on a bare `ws` server, each in a process of its own: memory and CPU while they are idle, CPU while
// they read replies, and the time from the agent to the reader. All clients are in one other process. Afterwards every reader must have
// every chunk, and no socket may have been closed.
//
//   idle       one pod whose sockets say hello, one whose sockets also join a session each, and the bare server: each in a new process,
//              all in the same window of time. Their memory is compared with that before the sockets, after some were opened and closed
//   streaming  one process of each for all rounds, one after the other: every reader has joined one of the sessions, and an agent
//              replies in each of them. The pods' throttle is off, so that all replies begin at once
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { formatId, uuidV7 } from '@fleetline/protocol'
import { migrateUp } from '../packages/server/src/store/migrate.ts'
import type { Scope } from '../packages/server/test/support/cleanup.ts'
import type { Cluster } from '../packages/server/test/support/cluster.ts'
import { eventually } from '../packages/server/test/support/eventually.ts'
import { call, makeSession } from '../packages/server/test/support/http.ts'
import { ASKABLE, memoryOf } from '../packages/server/test/support/pod-memory.ts'
import { startPod } from '../packages/server/test/support/pods.ts'
import { runProgram, type Program } from '../packages/server/test/support/program.ts'
import { watchCpu } from './support/cpu.ts'
import { makeKey, UNLIMITED } from './support/key.ts'
import { startOrdered, type OrderedProcess } from './support/orders.ts'
import { rounded, versionOf, type Bench, type Report, type Size as BenchSize } from './support/report.ts'
import { medianOf, quantileOf, ratioOf, runRounds } from './support/rounds.ts'
import type { Orders, Read } from './support/socket-clients.ts'
import { CHUNK_MS, type Wanted } from './support/stamped-speech.ts'

type Size = {
  readonly idle: {
    readonly sockets: number
    readonly rounds: number
    /** Sockets that are opened and closed first. */
    readonly warm: number
    readonly settleMs: number
    /** Before the sockets are opened. */
    readonly noneMs: number
    /** A multiple of the time between two ticks. */
    readonly idleMs: number
    /** The pages of few sockets are hidden by those that a young process gives back. */
    readonly hasRss: boolean
  }
  readonly streaming: {
    readonly sessions: number
    readonly readers: number
    readonly rounds: number
    readonly chunks: number
    readonly warmChunks: number
  }
}
const SIZES: Readonly<Record<BenchSize, Size>> = {
  full: {
    idle: {
      sockets: 5_000,
      rounds: 3,
      warm: 500,
      settleMs: 5_000,
      noneMs: 10_000,
      idleMs: 75_000,
      hasRss: true,
    },
    streaming: { sessions: 50, readers: 1_000, rounds: 5, chunks: 300, warmChunks: 200 },
  },
  quick: {
    idle: { sockets: 500, rounds: 1, warm: 100, settleMs: 500, noneMs: 1_000, idleMs: 25_000, hasRss: false },
    streaming: { sessions: 10, readers: 100, rounds: 2, chunks: 40, warmChunks: 10 },
  },
  smoke: {
    idle: { sockets: 4, rounds: 1, warm: 2, settleMs: 0, noneMs: 20, idleMs: 50, hasRss: false },
    streaming: { sessions: 2, readers: 4, rounds: 1, chunks: 3, warmChunks: 1 },
  },
}
const APP = join(import.meta.dirname, 'ours/sockets-app.ts')
const BARE = join(import.meta.dirname, 'bare/sockets.ts')
const CLIENTS = join(import.meta.dirname, 'support/socket-clients.ts')
const [DATABASE, TENANT] = ['sockets', 1]
const PAUSE_MS = 500 // between two rounds of replies, for the ends of turns and the answers to closed sockets
const [BARE_NAME, OURS, JOINED] = ['bare', 'ours', 'ours, joined'] as const

type Clients = OrderedProcess<Orders>
/** A process that is measured. */
type Server = {
  readonly program: Program
  /** Of its sockets. */
  readonly url: string
  readonly token?: string
  /** Returns sessions in which its agent replies. */
  readonly makeSessions: (count: number) => Promise<string[]>
  readonly reply: (session: string, wanted: Wanted) => Promise<void>
}
type Start = () => Promise<Server>

export const socketsBench: Bench = async ({ size, startServer }, scope) => {
  const { idle, streaming } = SIZES[size]
  const cluster = await startServer()
  const clients = await startOrdered<Orders>(scope, CLIENTS)
  const fleet = await prepare(cluster, idle.sockets)
  const startOurs = () => ours(scope, fleet)
  const startBare = () => bare(scope)
  const contestants: readonly Contestant[] = [
    { name: BARE_NAME, start: startBare, sessions: [] },
    { name: OURS, start: startOurs, sessions: [] },
    { name: JOINED, start: startOurs, sessions: fleet.sessions },
  ]
  const idles = new Map(contestants.map(({ name }) => [name, [] as Idle[]]))
  for (let round = 0; round < idle.rounds; round += 1) {
    const ordered = round % 2 === 0 ? contestants : contestants.toReversed()
    for (const [name, result] of await measureIdle(clients, ordered, idle)) idles.get(name)!.push(result)
  }
  const [bareServer, pod] = await Promise.all([startBare(), startOurs()])
  const cells = [
    { name: BARE_NAME, run: await streamsOf(clients, bareServer, streaming) },
    { name: OURS, run: await streamsOf(clients, pod, streaming) },
  ]
  const streams = await runRounds(cells, streaming.rounds)
  return reportOf({
    idles,
    streams,
    expected: streaming,
    hasRss: idle.hasRss,
    postgres: await versionOf(cluster),
  })
}

type Fleet = {
  readonly key: string
  readonly sessions: readonly string[]
  /** Creates a database with this key and these sessions. */
  readonly database: () => Promise<string>
}

async function prepare(cluster: Cluster, sessions: number): Promise<Fleet> {
  await cluster.admin(`create database ${DATABASE}`)
  const url = cluster.urlOf(DATABASE)
  await migrateUp({ databaseUrl: url })
  const key = await makeKey(url, ['sessions:read', 'sessions:write'])
  const { rows } = await cluster.admin(
    `insert into fleetline.sessions (tenant, id)
     select ${TENANT}, (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid
       from generate_series(1, ${sessions}) n returning id`,
    DATABASE,
  )
  await cluster.admin('vacuum analyze', DATABASE)
  let made = 0
  const database = async () => {
    const name = `${DATABASE}_${(made += 1)}`
    await cluster.admin(`create database ${name} template ${DATABASE}`)
    return cluster.urlOf(name)
  }
  return { key, sessions: rows.map(({ id }) => formatId('session', 0, String(id))), database }
}

async function ours(scope: Scope, { key, database }: Fleet): Promise<Server> {
  const settings = {
    FLEETLINE_TTL_MS: '5000',
    FLEETLINE_BEAT_MS: '1000',
    FLEETLINE_THROTTLE: 'off',
    ...UNLIMITED,
    ...ASKABLE,
  }
  const { program, gateway } = await startPod(scope, await database(), settings, APP)
  return {
    program,
    url: `${gateway.replace(/^http/, 'ws')}/v1/socket`,
    token: key,
    makeSessions: async (count) => {
      const made = Array.from({ length: count }, () => makeSession(gateway, { agent: 'bot' }))
      return (await Promise.all(made)).map(({ session }) => session)
    },
    reply: async (session, wanted) => {
      const message = { text: JSON.stringify(wanted) }
      const { status, body } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, message)
      assert.equal(status, 200, JSON.stringify(body))
    },
  }
}

async function bare(scope: Scope): Promise<Server> {
  const program = runProgram(scope, BARE, { env: ASKABLE })
  const port = await eventually(() => /^\d+$/m.exec(program.printed())?.[0] ?? assert.fail(), {
    what: 'the bare server',
    details: program.output,
  })
  return {
    program,
    url: `ws://127.0.0.1:${port}`,
    makeSessions: async (count) =>
      Array.from({ length: count }, () => formatId('session', 0, uuidV7(Date.now(), randomBytes(10)))),
    reply: async (session, wanted) => {
      await call('POST', `http://127.0.0.1:${port}`, { session, ...wanted })
    },
  }
}

type Memory = Awaited<ReturnType<typeof memoryOf>>
type Contestant = { readonly name: string; readonly start: Start; readonly sessions: readonly string[] }
type Idle = {
  readonly rssBytes: number
  readonly heapBytes: number
  readonly nonePercent: number
  readonly percent: number
  readonly closed: number
}

/** Opens the sockets of one contestant after the other, and then watches all of them at once. */
async function measureIdle(
  clients: Clients,
  contestants: readonly Contestant[],
  { sockets, warm, settleMs, noneMs, idleMs }: Size['idle'],
): Promise<ReadonlyMap<string, Idle>> {
  const servers = await Promise.all(contestants.map(({ start }) => start()))
  const watched = contestants.map((contestant, place) => ({ ...contestant, server: servers[place]! }))
  for (const { name, server, sessions } of watched) {
    await open(clients, name, server, { count: warm, sessions })
    await clients.order('close', name)
    await memoryOf(server.program) // collects what they have left, so that its pages go back in time
  }
  await pause(settleMs)
  const nonePercents = await cpuOf(servers, noneMs)
  const before: Memory[] = []
  for (const { name, server, sessions } of watched) {
    before.push(await memoryOf(server.program))
    await open(clients, name, server, { count: sockets, sessions })
  }
  await pause(settleMs)
  const percents = await cpuOf(servers, idleMs)
  const results = new Map<string, Idle>()
  for (const [place, { name, server }] of watched.entries()) {
    const [was, is] = [before[place]!, await memoryOf(server.program)]
    const { closed } = await clients.order('close', name)
    results.set(name, {
      rssBytes: (is.rss - was.rss) / sockets,
      heapBytes: (is.heapUsed + is.external - was.heapUsed - was.external) / sockets,
      nonePercent: nonePercents[place]!,
      percent: percents[place]!,
      closed,
    })
  }
  await Promise.all(servers.map(end))
  return results
}

/** How busy each keeps one core for a while, in percent. */
async function cpuOf(servers: readonly Server[], ms: number): Promise<number[]> {
  const percents = servers.map(({ program }) => watchCpu(program.pid))
  await pause(ms)
  return percents.map((percent) => percent())
}

type Opening = { readonly count: number; readonly sessions: readonly string[] }

async function open(clients: Clients, group: string, { url, token }: Server, opening: Opening) {
  await clients.order('open', group, { url, ...(token !== undefined && { token }), ...opening })
}

async function end({ program }: Server): Promise<void> {
  program.kill()
  await program.ended
}

type Streamed = Read & { readonly percent: number; readonly cpuMs: number }

/** Opens the readers, and lets them read short replies first. The returned function lets them read one reply each. */
async function streamsOf(clients: Clients, server: Server, size: Size['streaming']) {
  const { readers, chunks, warmChunks } = size
  const group = server.url
  const sessions = await server.makeSessions(size.sessions)
  await open(clients, group, server, { count: readers, sessions })
  const stream = async (round: number, length: number): Promise<Streamed> => {
    await pause(PAUSE_MS)
    const [percent, startMs] = [watchCpu(server.program.pid), performance.now()]
    const reading = clients.order('read', group, round, length)
    const asked = sessions.map((session, n) =>
      server.reply(session, { round, chunks: length, phase: n / sessions.length }),
    )
    const [read] = await Promise.all([reading, ...asked])
    const busy = percent()
    return { ...read, percent: busy, cpuMs: (busy / 100) * (performance.now() - startMs) }
  }
  await stream(0, warmChunks)
  return (round: number) => stream(round + 1, chunks)
}

type Results = {
  readonly idles: ReadonlyMap<string, readonly Idle[]>
  readonly streams: ReadonlyMap<string, readonly Streamed[]>
  readonly expected: Size['streaming']
  readonly hasRss: boolean
  readonly postgres: string
}

function reportOf({ idles, streams, expected, hasRss, postgres }: Results): Report {
  const idle = (name: string, field: keyof Idle) => idles.get(name)!.map((result) => result[field])
  const stream = (name: string) => streams.get(name)!
  const delay = (name: string, share: number) =>
    medianOf(stream(name).map(({ delaysMs }) => quantileOf(delaysMs, share)))
  const cpu = (name: string) => stream(name).map(({ cpuMs, delaysMs }) => (cpuMs * 1_000) / delaysMs.length)
  const ofRounds = (name: string, field: 'percent' | 'begunMs' | 'saidMs') =>
    medianOf(stream(name).map((read) => read[field]))
  const sum = (name: string, count: (read: Streamed) => number) =>
    stream(name).reduce((total, read) => total + count(read), 0)
  const chunks = expected.readers * expected.chunks * expected.rounds
  const delivered = (name: string) => sum(name, ({ delaysMs }) => delaysMs.length)
  const lost = chunks - delivered(OURS)
  const closed = [OURS, JOINED].flatMap((name) => idle(name, 'closed')).reduce((a, b) => a + b)
  const [all, both] = [[BARE_NAME, OURS, JOINED] as const, [BARE_NAME, OURS] as const]
  const ofIdle = (field: keyof Idle) => all.map((name) => rounded(medianOf(idle(name, field))))
  const ofStreams = (value: (name: string) => number) => [...both.map((name) => rounded(value(name))), '–']
  const faults = [
    ...(lost === 0 ? [] : [`${lost} of ${chunks} chunks have not reached their readers`]),
    ...(closed === 0 ? [] : [`The pods closed ${closed} idle sockets`]),
  ]
  return {
    ratios: {
      ...(hasRss && { idle_rss_vs_bare: ratioOf(idle(OURS, 'rssBytes'), idle(BARE_NAME, 'rssBytes')) }),
      idle_heap_vs_bare: ratioOf(idle(OURS, 'heapBytes'), idle(BARE_NAME, 'heapBytes')),
      joined_heap_vs_bare: ratioOf(idle(JOINED, 'heapBytes'), idle(BARE_NAME, 'heapBytes')),
      streaming_cpu_vs_bare: ratioOf(cpu(OURS), cpu(BARE_NAME)),
    },
    times: {
      delay_p50_ms: delay(OURS, 0.5),
      delay_p99_ms: delay(OURS, 0.99),
      bare_delay_p50_ms: delay(BARE_NAME, 0.5),
      bare_delay_p99_ms: delay(BARE_NAME, 0.99),
    },
    counts: {
      ...(hasRss && { idle_rss_bytes: rounded(medianOf(idle(OURS, 'rssBytes'))) }),
      idle_heap_bytes: rounded(medianOf(idle(OURS, 'heapBytes'))),
      idle_cpu_percent: rounded(medianOf(idle(OURS, 'percent'))),
      joined_cpu_percent: rounded(medianOf(idle(JOINED, 'percent'))),
      streaming_cpu_percent: rounded(ofRounds(OURS, 'percent')),
      expected: chunks,
      lost,
      closed,
    },
    table: [
      ['figure', ...all],
      ...(hasRss ? [['idle: RSS, bytes a socket', ...ofIdle('rssBytes')]] : []),
      ['idle: heap and external, bytes a socket', ...ofIdle('heapBytes')],
      ['idle: CPU %', ...ofIdle('percent')],
      ['no sockets: CPU %', ...ofIdle('nonePercent')],
      ['streaming: CPU %', ...ofStreams((name) => medianOf(stream(name).map(({ percent }) => percent)))],
      ['streaming: CPU µs a chunk and reader', ...ofStreams((name) => medianOf(cpu(name)))],
      ['streaming: p50 ms', ...ofStreams((name) => delay(name, 0.5))],
      ['streaming: p99 ms', ...ofStreams((name) => delay(name, 0.99))],
      [
        'streaming: frames a chunk',
        ...ofStreams((name) => sum(name, ({ frames }) => frames) / delivered(name)),
      ],
      [
        'streaming: % with the stored reply',
        ...ofStreams((name) => (100 * sum(name, ({ late }) => late)) / delivered(name)),
      ],
      ['streaming: last reply begins after ms', ...ofStreams((name) => ofRounds(name, 'begunMs'))],
      [
        `streaming: last chunk is said after ms (of ${expected.chunks * CHUNK_MS})`,
        ...ofStreams((name) => ofRounds(name, 'saidMs')),
      ],
      [`streaming: delivered of ${chunks}`, ...both.map(delivered), '–'],
    ],
    faults,
    postgres,
  }
}
