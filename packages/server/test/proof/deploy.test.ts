// R1: a deploy. Three pods are restarted in turn, again and again, while agents reply and clients follow: over sockets and over event
// streams, through a port in front that opens connections only to ready pods. More messages are sent all the time. No reply is begun
// anew, no message is lost or stored twice, every follower has the whole log at the end, and none was offline.
// How long followers wait for the next chunk while they move, and how long a stop takes, are figures.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, connect, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient, type Connection, type Session } from '@fleetline/client'
import type { Page } from '@fleetline/protocol'
import { valueOf } from '../../src/store/database.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { replyTo } from '../support/deploy-app.ts'
import { eventually } from '../support/eventually.ts'
import { call, makeSession } from '../support/http.ts'
import { startPod, type RunningPod } from '../support/pods.ts'
import { proofSize } from '../support/proof-size.ts'
import { openDatabase } from '../support/store.ts'

const TALKS = proofSize({ full: 20, quick: 6 })
const SECONDS = proofSize({ full: 30, quick: 8 })
const ROUNDS = proofSize({ full: 3, quick: 1 })
const PODS = 3
/** Every fourth talk has a second follower, over an event stream. */
const STREAM_EVERY = 4
const APP = join(import.meta.dirname, '../support/deploy-app.ts')
const PATIENCE = { patienceMs: (SECONDS + 120) * 1_000 }
const SETTINGS = { FLEETLINE_UNREADY_MS: '3000', FLEETLINE_DRAIN_MS: '120000', FLEETLINE_STOP_MS: '60000' }

/** A port that opens each new connection to a pod that is ready now, one pod after the other. */
async function portBefore(t: TestContext, pods: readonly RunningPod[]): Promise<string> {
  let turn = 0
  const isReady = ({ admin }: RunningPod) =>
    fetch(`${admin}/readyz`).then(
      async (answer) => (await answer.text(), answer.status === 200),
      () => false,
    )
  const readyPod = () =>
    eventually(
      async () => {
        for (let tries = 0; tries < PODS; tries += 1) {
          const pod = pods[(turn += 1) % PODS]!
          if (await isReady(pod)) return pod
        }
        return assert.fail('no pod is ready')
      },
      { what: 'a ready pod' },
    )
  const server = createServer((client) => {
    client.pause().on('error', () => undefined)
    atEnd(t, () => client.destroy())
    const join = async () => {
      const behind = connect(Number(new URL((await readyPod()).gateway).port), '127.0.0.1')
      for (const [from, to] of [
        [client, behind],
        [behind, client],
      ] as const)
        from.on('error', () => undefined).on('close', () => to.destroy())
      if (client.destroyed) behind.destroy()
      client.pipe(behind).pipe(client)
    }
    join().catch(() => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

type Followed = {
  readonly kind: 'socket' | 'events'
  readonly session: Session
  readonly connections: Connection[]
  /** Replies that were shown anew, from their beginning. */
  readonly anew: string[]
  longestMs: number
}

/** Follows a session with a client of its own, and watches its replies grow. */
function follow(t: TestContext, front: string, id: string, kind: Followed['kind']): Followed {
  const overEvents = { fetch: (...request: Parameters<typeof fetch>) => fetch(...request) }
  const client = createClient({ url: front, ...(kind === 'events' && overEvents) })
  atEnd(t, () => client.close())
  const session = client.session(id)
  const followed: Followed = { kind, session, connections: [], anew: [], longestMs: 0 }
  let open = { id: '', length: 0, atMs: 0 }
  session.subscribe(() => {
    const { connection, messages } = session.get()
    if (connection !== followed.connections.at(-1)) followed.connections.push(connection)
    const reply = messages.find(({ delivery }) => delivery === 'open')
    if (!reply) return void (open = { id: '', length: 0, atMs: 0 })
    const [length, atMs] = [textOf(reply).length, performance.now()]
    if (reply.id === open.id && length < open.length) followed.anew.push(reply.id)
    if (reply.id === open.id && length > open.length && open.length > 0)
      followed.longestMs = Math.max(followed.longestMs, atMs - open.atMs)
    if (reply.id !== open.id || length !== open.length) open = { id: reply.id, length, atMs }
  })
  return followed
}

function textOf({ parts }: { readonly parts: readonly { readonly [field: string]: unknown }[] }): string {
  return parts.map(({ text }) => text).join('')
}

/** Asks for one reply after the other, and says something in the middle of each. Resolves to what it has sent, in order. */
async function talk({ session }: Followed, isOver: () => boolean): Promise<string[]> {
  const said: string[] = []
  const send = async (text: string) => {
    said.push(text)
    await session.send(text).sent
  }
  while (!isOver()) {
    await send(`tell ${SECONDS}`)
    await pause(Math.random() * SECONDS * 1_000)
    const aside = `aside ${said.length}`
    await send(aside)
    await eventually(
      () => {
        const { messages, status } = session.get()
        assert.ok(textOf(messages.at(-1)!) === replyTo(aside) && status === 'idle', status) // between two turns it is idle, too
      },
      { what: 'the replies', ...PATIENCE, details: () => JSON.stringify(session.get()) },
    )
  }
  return said
}

async function logOf(front: string, session: string): Promise<Page['items']> {
  const items: Page['items'][number][] = []
  for (;;) {
    const after = items.at(-1)?.seq ?? 0
    const { body } = await call('GET', `${front}/v1/sessions/${session}/messages?after=${after}`)
    const page = body as unknown as Page
    if (page.items.length === 0) return items
    items.push(...page.items)
  }
}

test(`R1: ${ROUNDS * PODS} restarts under ${TALKS} conversations begin no reply anew, and lose nothing`, async (t) => {
  const url = await databaseFor(t)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-deploy-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const calls = join(folder, 'calls')
  writeFileSync(calls, '')
  const start = () => startPod(t, url, { ...SETTINGS, TELLER_CALLS: calls }, APP)
  const pods = await Promise.all(Array.from({ length: PODS }, start))
  const front = await portBefore(t, pods)
  const ids = await Promise.all(
    Array.from({ length: TALKS }, async () => (await makeSession(front, { agent: 'teller' })).session),
  )
  const talkers = ids.map((id) => follow(t, front, id, 'socket'))
  const listeners = ids.filter((_, n) => n % STREAM_EVERY === 0).map((id) => follow(t, front, id, 'events'))
  const followers = [...talkers, ...listeners]
  await Promise.all(followers.map(({ session }) => session.ready))
  let isOver = false
  const talks = Promise.all(talkers.map((talker) => talk(talker, () => isOver)))
  talks.catch(() => undefined) // awaited below
  const isTelling = ({ session }: Followed) =>
    session.get().messages.some(({ delivery }) => delivery === 'open')
  await eventually(() => assert.ok(talkers.every(isTelling)), { what: 'all to be replied to' })

  for (let round = 0; round < ROUNDS; round += 1)
    for (const [n, { program }] of [...pods].entries()) {
      const sinceMs = performance.now()
      program.kill('SIGTERM')
      await eventually(() => assert.ok(program.hasEnded()), { what: 'a pod to end', ...PATIENCE })
      assert.deepEqual(await program.ended, { code: 0, signal: null }, program.output())
      t.diagnostic(`figure stop_s ${(performance.now() - sinceMs) / 1_000}`)
      pods[n] = await start()
    }
  isOver = true
  const said = await talks

  const logs = await Promise.all(ids.map((id) => logOf(front, id)))
  for (const [n, log] of logs.entries()) {
    const asked = log.filter(({ role }) => role === 'user').map(textOf)
    assert.deepEqual(asked, said[n], 'each message is stored once, in order')
    for (const reply of log.filter(({ role }) => role === 'assistant')) {
      const last = log.findLast(
        ({ role, seq }) => role === 'user' && seq < reply.seq && seq <= reply.answers!,
      )!
      assert.equal(textOf(reply), replyTo(textOf(last)), 'each reply is whole')
    }
  }
  for (const { session, connections, anew, kind } of followers) {
    const shown = () =>
      session.get().messages.map(({ seq, id, role, parts }) => ({ seq, id, role, text: textOf({ parts }) }))
    const log = logs[ids.indexOf(session.id as (typeof ids)[number])]!
    const stored = log.map(({ seq, id, role, parts }) => ({ seq, id, role, text: textOf({ parts }) }))
    await eventually(() => assert.deepEqual(shown(), stored), {
      what: `a follower over ${kind} to have the log`,
    })
    assert.deepEqual(anew, [], `a reply was shown anew over ${kind}`)
    assert.ok(!connections.includes('offline') && !connections.includes('refused'), connections.join(' '))
  }

  const database = await openDatabase(t, url)
  type Ended = { readonly outcome: string; readonly spent: number; readonly attempt: number }
  const ended = valueOf(
    await database.transaction((query) =>
      query<Ended>('select outcome, spent, attempt from fleetline.task_history'),
    ),
    'no history',
  )
  const called = readFileSync(calls, 'utf8').trim().split('\n')
  assert.deepEqual(new Set(ended.map(({ outcome, spent }) => `${outcome} ${spent}`)), new Set(['done 1']))
  assert.deepEqual(new Set(called.map((line) => line.split(' ')[1])), new Set(['1']))
  assert.equal(new Set(called).size, called.length, 'no agent is called twice for a turn')
  assert.equal(called.length, ended.length)

  const longest = (kind: Followed['kind']) =>
    Math.max(...followers.filter((one) => one.kind === kind).map(({ longestMs }) => longestMs)) / 1_000
  const lost = (kind: Followed['kind']) =>
    followers
      .filter((one) => one.kind === kind)
      .flatMap(({ connections }) => connections.filter((one) => one === 'stale')).length
  t.diagnostic(`figure replies ${ended.length}`)
  t.diagnostic(`figure gap_socket_s ${longest('socket')}`)
  t.diagnostic(`figure gap_events_s ${longest('events')}`)
  t.diagnostic(`figure sockets_lost ${lost('socket')}`)
  t.diagnostic(`figure streams_ended ${lost('events')}`)
  t.diagnostic(`figure claims_handed_back ${ended.reduce((sum, { attempt }) => sum + attempt - 1, 0)}`)
})
