// L1 to L5, E1, Q1: three pods under load while processes of the server are killed, so that it restarts, and while connections
// break anywhere, also inside a COMMIT. Whoever gets no answer asks again under the same id. Nothing that was acknowledged is
// lost, nothing is there twice, nothing is stuck.
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

test(`${CRASHES} crashes of the server under load: nothing is lost, doubled or stuck`, async (t) => {
  const fleet = await loadedFleet(t)
  for (let crash = 0; crash < CRASHES; crash += 1) {
    await fleet.untilMore(ACKS_BETWEEN)
    const pids = await eventually(() => fleet.cluster.admin(BACKENDS), { what: 'the server', ...PATIENCE })
    process.kill(Number(pids.rows[0]!['pid']), crash % 3 === 2 ? 'SIGTERM' : 'SIGKILL')
  }
  await fleet.untilMore(ACKS_BETWEEN)
  await fleet.judge()
})

test(`${RESETS} resets of connections under load: nothing is lost, doubled or stuck`, async (t) => {
  const fleet = await loadedFleet(t)
  for (let reset = 0; reset < RESETS; reset += 1) {
    await pause(Math.random() * 400)
    fleet.proxies[reset % PODS]!.reset()
  }
  await fleet.untilMore(ACKS_BETWEEN)
  await fleet.judge()
})

const BACKENDS = `select pid from pg_stat_activity
  where datname = 'f' and backend_type = 'client backend' order by random() limit 1`

/** Three pods, each behind a proxy of its own, with writers of logs, people who talk and programs that enqueue. */
async function loadedFleet(t: TestContext) {
  const cluster = await startCluster(15)
  atEnd(t, () => cluster.stop())
  await cluster.admin('create database f')
  const url = cluster.urlOf('f')
  await migrateUp({ url })
  const proxies = await Promise.all(Array.from({ length: PODS }, () => proxyFor(t, url)))
  const parts = { tasks: [plain, steps], agents: [bot] }
  const pods = await Promise.all(proxies.map((proxy) => podOn(t, proxy.url, FLAGS, parts)))
  const load = { pods, isOver: false, acked: 0 }
  const logs = await Promise.all(Array.from({ length: LOGS }, () => logFor(pods[0]!.gateway)))
  const talks = await Promise.all(
    Array.from({ length: TALKS }, () => makeSession(pods[0]!.gateway, { agent: 'bot' })),
  )
  const tasks = new Set<string>()
  const all = Promise.all([
    ...logs.map((log) => writeTo(load, log)),
    ...talks.map(({ session }) => talkIn(load, session)),
    ...[plain, steps].map(({ name }) => enqueueInto(load, name, tasks)),
  ])
  all.catch(() => undefined) // awaited below
  return {
    cluster,
    proxies,
    untilMore: async (more: number) => {
      const due = load.acked + more
      await eventually(() => assert.ok(load.acked >= due), { what: `${due} acknowledged`, ...PATIENCE })
    },
    judge: async () => {
      load.isOver = true
      await all
      await untilNothingIsOpen(cluster)
      t.diagnostic(`figure acked ${load.acked}`)
      const database = await openDatabase(t, url)
      for (const { session, history } of logs)
        assert.deepEqual(brokenByLog(history.ops, await logOf(database, keyOf(session))), [])
      await judgeTasks(cluster, tasks)
      assert.deepEqual((await cluster.admin(BROKEN_TALKS, 'f')).rows, [])
    },
  }
}

type Load = { readonly pods: readonly { readonly gateway: string }[]; isOver: boolean; acked: number }
type Log = { readonly session: string; readonly history: ReturnType<typeof createHistory> }

async function logFor(gateway: string): Promise<Log> {
  return { session: (await makeSession(gateway)).session, history: createHistory() }
}

function anyOf({ pods }: Load): string {
  return pods[Math.floor(Math.random() * pods.length)]!.gateway
}

/** Again and again, until it is acknowledged. */
async function untilAcked(load: Load, what: string, send: () => Promise<boolean>): Promise<void> {
  const isSent = async () => assert.ok(await send().catch(() => false))
  await eventually(isSent, { what: `${what} to be acknowledged`, ...PATIENCE })
  load.acked += 1
}

async function writeTo(load: Load, { session, history }: Log): Promise<void> {
  for (let n = 0; !load.isOver; n += 1) {
    const item = { ...keyOf(session), draft: textDraft(`m-${n}`) }
    await untilAcked(load, item.draft.id, async () => {
      const { ok } = await history.send(item, sendOver(anyOf(load)))
      return ok !== undefined
    })
  }
}

async function talkIn(load: Load, session: string): Promise<void> {
  for (let n = 0; !load.isOver; n += 1) {
    const message = { id: `m-${n}`, parts: [{ type: 'text', text: 'hello' }] }
    await untilAcked(load, `${session} ${message.id}`, async () => {
      const path = `/v1/sessions/${session}/messages`
      return (await call('POST', `${anyOf(load)}${path}`, { message })).status === 200
    })
    await pause(100)
  }
}

async function enqueueInto(load: Load, name: string, tasks: Set<string>): Promise<void> {
  while (!load.isOver) {
    const id = formatId('task', 0, uuidV7(Date.now(), randomBytes(10)))
    await untilAcked(load, id, async () => {
      const body = { id, machine: name, input: null }
      return (await call('POST', `${anyOf(load)}/v1/tasks`, body)).status < 300
    })
    tasks.add(parseId('task', id)!.uuid)
  }
}

async function untilNothingIsOpen(cluster: Cluster): Promise<void> {
  const open = `select (select count(*) from fleetline.tasks) + (select count(*) from fleetline.turns where ended_at is null) as n`
  await eventually(async () => assert.equal(Number((await cluster.admin(open, 'f')).rows[0]!['n']), 0), {
    what: 'every task and turn to end',
    ...PATIENCE,
  })
}

async function judgeTasks(cluster: Cluster, tasks: ReadonlySet<string>): Promise<void> {
  const { rows } = await cluster.admin(
    `select h.id, h.outcome from fleetline.task_history h join fleetline.tracks k on k.id = h.track
      where k.machine in ('plain', 'steps')`,
    'f',
  )
  assert.deepEqual(new Set(rows.map(({ outcome }) => outcome)), new Set(['done']))
  assert.deepEqual([rows.length, new Set(rows.map(({ id }) => id))], [tasks.size, tasks])
}

// A log with a hole, a question without an answer, a turn that did not end well, one with no reply or with two.
const BROKEN_TALKS = `
  select id::text as broken from fleetline.sessions s
   where s.turn is not null or s.asked > s.answered
      or s.head <> (select count(*) from fleetline.messages m where m.tenant = s.tenant and m.session = s.id)
  union all
  select t.id::text from fleetline.turns t
   where t.outcome <> 'done'
      or 1 <> (select count(*) from fleetline.messages m where m.tenant = t.tenant and m.turn = t.id)`
