// L1 to L5, E1, Q1: three pods run under load. One test kills backends of PostgreSQL: SIGKILL makes the whole server restart;
// every third time SIGTERM ends one connection. The other test resets connections at random moments. Clients that hear no
// acknowledgement retry with the same id. Every acknowledged write is stored exactly once, and every task and turn ends.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { formatId, parseId, uuidV7 } from '@fleetline/protocol'
import { z } from 'zod'
import { agent, machine, task } from '../../src/index.ts'
import { migrateUp } from '../../src/store/migrate.ts'
import { atEnd } from '../support/cleanup.ts'
import { startCluster, type Cluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { brokenByLog, createHistory, textDraft } from '../support/history.ts'
import { call, makeSession, sendOver } from '../support/http.ts'
import { podOn } from '../support/pod.ts'
import { proofSize } from '../support/proof-size.ts'
import { proxyFor } from '../support/proxy.ts'
import { keyOf, logOf } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { saying } from '../support/talk.ts'

const CRASHES = proofSize({ full: 12, quick: 3 })
const RESETS = proofSize({ full: 200, quick: 50 })
const [PODS, LOGS, TALKS, ACKS_BETWEEN] = [3, 4, 6, 100]
const PATIENCE = { patienceMs: 120_000 }
const FLAGS = {
  transactionDeadlineMs: '5000',
  idleTransactionMs: '5000',
  drainMs: '3000',
  ttlMs: '3000',
  beatMs: '500',
}

const LIMITS = { attempts: 50 }
const plain = task('plain', async () => pause(10, 1), LIMITS)
const steps = machine('steps', { input: z.null(), output: z.number() })
  .to('one', async () => pause(10, 1), LIMITS)
  .to('two', async () => pause(10, 2), LIMITS)
  .end(({ out }) => out.two)
const bot = agent('bot', async function* () {
  for await (const chunk of saying('hello')) yield await pause(20, chunk)
})

test(`${CRASHES} killed PostgreSQL backends under load: nothing is lost, duplicated or stuck`, async (t) => {
  const fleet = await loadedFleet(t)
  for (let crash = 0; crash < CRASHES; crash += 1) {
    await fleet.untilMore(ACKS_BETWEEN)
    await killBackend(fleet.cluster, crash % 3 === 2 ? 'SIGTERM' : 'SIGKILL')
  }
  await fleet.untilMore(ACKS_BETWEEN)
  await fleet.judge()
})

test(`${RESETS} connection resets under load: nothing is lost, duplicated or stuck`, async (t) => {
  const fleet = await loadedFleet(t)
  let hits = 0
  for (let reset = 0; reset < RESETS; reset += 1) {
    await pause(Math.random() * 400)
    if (fleet.proxies[reset % PODS]!.reset() > 0) hits += 1
    if (reset % 10 === 9) await fleet.untilMore(1)
  }
  assert.ok(hits > RESETS / 2, `${hits} resets closed a connection`)
  await fleet.untilMore(ACKS_BETWEEN)
  await fleet.judge()
})

const BACKEND = `select pid from pg_stat_activity
  where datname = 'f' and backend_type = 'client backend' order by random() limit 1`
const RESTARTED = 'select stats_reset::text as at from pg_stat_bgwriter'

async function killBackend(cluster: Cluster, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const restartedAt = async () => (await cluster.admin(RESTARTED)).rows[0]!['at']
  const before = await eventually(restartedAt, { what: 'the server', ...PATIENCE })
  const kill = async () => process.kill(Number((await cluster.admin(BACKEND)).rows[0]!['pid']), signal)
  await eventually(kill, { what: 'a backend to kill', ...PATIENCE })
  if (signal === 'SIGTERM') return
  const isRestarted = async () => assert.notEqual(await restartedAt(), before)
  await eventually(isRestarted, { what: 'the server to have restarted', ...PATIENCE })
}

/** Starts three pods, each behind its own proxy, and the load: clients that append to logs, chat with an agent, enqueue tasks. */
async function loadedFleet(t: TestContext) {
  const cluster = await startCluster(15)
  atEnd(t, () => cluster.stop())
  await cluster.admin('create database f')
  const url = cluster.urlOf('f')
  await migrateUp({ databaseUrl: url })
  const proxies = await Promise.all(Array.from({ length: PODS }, () => proxyFor(t, url)))
  const parts = { tasks: [plain, steps], agents: [bot] }
  const pods = await Promise.all(proxies.map((proxy) => podOn(t, proxy.url, FLAGS, parts)))
  const load: Load = { pods, isOver: false, isAbandoned: false, acked: 0, unacked: 0 }
  atEnd(t, () => void (load.isOver = load.isAbandoned = true))
  const logs = await Promise.all(Array.from({ length: LOGS }, () => newLog(pods[0]!.gateway)))
  const talks = await Promise.all(Array.from({ length: TALKS }, () => newTalk(pods[0]!.gateway)))
  const tasks = new Set<string>()
  const clients = Promise.all([
    ...logs.flatMap((log) => ['a', 'b'].map((writer) => writeTo(load, log, writer))),
    ...talks.map((talk) => talkIn(load, talk)),
    ...[plain, steps].map(({ name }) => enqueueInto(load, name, tasks)),
  ])
  return {
    cluster,
    proxies,
    untilMore: async (more: number) => {
      const due = load.acked + more
      const isMore = eventually(() => assert.ok(load.acked >= due), { what: `${due} acks`, ...PATIENCE })
      await Promise.race([isMore, clients]) // a client that gives up reports its own error
    },
    judge: async () => {
      load.isOver = true
      await clients
      await untilNothingIsOpen(cluster)
      t.diagnostic(`figure acked ${load.acked}`)
      t.diagnostic(`figure unacked ${load.unacked}`)
      t.diagnostic(`figure unknown_commits ${await countUnknown(pods)}`)
      assert.ok(load.unacked > 0, 'some requests were not acknowledged and were sent again')
      const database = await openDatabase(t, url)
      for (const { session, history } of logs)
        assert.deepEqual(brokenByLog(history.ops, await logOf(database, keyOf(session))), [])
      for (const talk of talks) await judgeTalk(cluster, talk)
      assert.deepEqual((await cluster.admin(BROKEN_TALKS, 'f')).rows, [])
      await judgeTasks(cluster, tasks)
    },
  }
}

type Load = {
  readonly pods: readonly { readonly gateway: string }[]
  /** Clients start no new request, but still repeat one that is not acknowledged. */
  isOver: boolean
  /** The test has ended: requests that are not acknowledged are not repeated. */
  isAbandoned: boolean
  acked: number
  unacked: number
}
type Log = { readonly session: string; readonly history: ReturnType<typeof createHistory> }
type Talk = { readonly session: string; readonly acked: string[] }

async function newLog(gateway: string): Promise<Log> {
  return { session: (await makeSession(gateway)).session, history: createHistory() }
}

async function newTalk(gateway: string): Promise<Talk> {
  return { session: (await makeSession(gateway, { agent: 'bot' })).session, acked: [] }
}

/** Repeats a request, each time to any pod, until one acknowledges it. */
async function untilAcked(load: Load, what: string, send: (gateway: string) => Promise<boolean>) {
  const trySend = async () => {
    if (load.isAbandoned) return
    const { gateway } = load.pods[Math.floor(Math.random() * load.pods.length)]!
    if (await send(gateway).catch(() => false)) return
    load.unacked += 1
    assert.fail(`No acknowledgement by ${gateway}`)
  }
  await eventually(trySend, { what: `${what} to be acknowledged`, ...PATIENCE })
  load.acked += 1
}

async function writeTo(load: Load, { session, history }: Log, writer: string): Promise<void> {
  for (let n = 0; !load.isOver; n += 1) {
    const item = { ...keyOf(session), draft: textDraft(`${writer}-${n}`) }
    await untilAcked(load, item.draft.id, async (gateway) => {
      const { ok } = await history.send(item, sendOver(gateway))
      return ok !== undefined
    })
  }
}

async function talkIn(load: Load, { session, acked }: Talk): Promise<void> {
  for (let n = 0; !load.isOver; n += 1) {
    const message = { id: `m-${n}`, parts: [{ type: 'text', text: 'hello' }] }
    await untilAcked(load, `${session} ${message.id}`, async (gateway) => {
      const { status } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, { message })
      return status === 200
    })
    acked.push(message.id)
    await pause(100)
  }
}

async function enqueueInto(load: Load, name: string, tasks: Set<string>): Promise<void> {
  while (!load.isOver) {
    const id = formatId('task', 0, uuidV7(Date.now(), randomBytes(10)))
    await untilAcked(load, id, async (gateway) => {
      const { status } = await call('POST', `${gateway}/v1/tasks`, { id, machine: name, input: null })
      return status < 300
    })
    tasks.add(parseId('task', id)!.uuid)
  }
}

/** Transactions of all pods, also of reads, that sent COMMIT and got no trustworthy answer. */
async function countUnknown(pods: readonly { readonly admin: string }[]): Promise<number> {
  const texts = await Promise.all(pods.map(async ({ admin }) => (await fetch(`${admin}/metrics`)).text()))
  const counts = texts.flatMap((text) =>
    Array.from(text.matchAll(/^fleetline_transactions_total\{.*outcome="unknown".*\} (\d+)$/gm), ([, n]) =>
      Number(n),
    ),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}

async function untilNothingIsOpen(cluster: Cluster): Promise<void> {
  const open = `select (select count(*) from fleetline.tasks) + (select count(*) from fleetline.turns where ended_at is null) as n`
  await eventually(async () => assert.equal(Number((await cluster.admin(open, 'f')).rows[0]!['n']), 0), {
    what: 'every task and turn to end',
    ...PATIENCE,
  })
}

/** The session holds exactly the acknowledged messages, each once and in order, and at least one reply. */
async function judgeTalk(cluster: Cluster, { session, acked }: Talk): Promise<void> {
  const { rows } = await cluster.admin(
    `select id, turn from fleetline.messages where session = '${keyOf(session).session}' order by seq`,
    'f',
  )
  const isReply = Map.groupBy(rows, ({ turn }) => turn !== null)
  assert.deepEqual(
    isReply.get(false)?.map(({ id }) => id),
    acked,
  )
  assert.ok((isReply.get(true)?.length ?? 0) > 0, `replies in ${session}`)
}

async function judgeTasks(cluster: Cluster, tasks: ReadonlySet<string>): Promise<void> {
  const { rows } = await cluster.admin(
    `select h.id, h.outcome from fleetline.task_history h join fleetline.tracks k on k.id = h.track
      where k.machine in ('plain', 'steps')`,
    'f',
  )
  assert.deepEqual(new Set(rows.map(({ outcome }) => outcome)), new Set(['done']))
  assert.equal(rows.length, tasks.size)
  assert.deepEqual(new Set(rows.map(({ id }) => id)), tasks)
}

// Finds sessions with a gap in the log, an open turn or an unanswered message, and turns that did not end as done or do not have
// exactly one reply.
const BROKEN_TALKS = `
  select id::text as broken from fleetline.sessions s
   where s.turn is not null or s.asked > s.answered
      or s.head <> (select count(*) from fleetline.messages m where m.tenant = s.tenant and m.session = s.id)
  union all
  select t.id::text from fleetline.turns t
   where t.outcome <> 'done'
      or 1 <> (select count(*) from fleetline.messages m where m.tenant = t.tenant and m.turn = t.id)`
