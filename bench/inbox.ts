// Inboxes of users, on two pods: how long a page takes, and how long a change takes to reach a follower on the other pod. One user is
// a member of all sessions, the others of 100 each; these follow their inboxes while messages are appended at a steady rate. A page is
// compared with its bare statement. Afterwards every follower must have every session as it is.
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { formatId, type InboxFrame, type InboxPage } from '@fleetline/protocol'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import pg from 'pg'
import { PAGE } from '../packages/server/src/inbox/reading.ts'
import { migrateUp } from '../packages/server/src/store/migrate.ts'
import { atEnd, type Scope } from '../packages/server/test/support/cleanup.ts'
import { eventually } from '../packages/server/test/support/eventually.ts'
import { call } from '../packages/server/test/support/http.ts'
import { startPod } from '../packages/server/test/support/pods.ts'
import { rounded, versionOf, type Bench, type Size as BenchSize } from './support/report.ts'
import { medianOf, quantileOf, ratioOf, runRounds } from './support/rounds.ts'

type Size = {
  readonly sessions: number
  readonly users: number
  readonly perSecond: number
  readonly seconds: number
  readonly pages: number
  readonly rounds: number
}
const SIZES: Readonly<Record<BenchSize, Size>> = {
  full: { sessions: 20_000, users: 200, perSecond: 100, seconds: 60, pages: 50, rounds: 5 },
  quick: { sessions: 20_000, users: 200, perSecond: 100, seconds: 15, pages: 20, rounds: 3 },
  smoke: { sessions: 200, users: 4, perSecond: 20, seconds: 1, pages: 2, rounds: 1 },
}
const [DATABASE, TENANT, LIMIT, DAYS] = ['inbox', 1, 50, 400]
const EVERYWHERE = 'everywhere'
const FIRST = ['infinity', Number.POSITIVE_INFINITY, 'ffffffff-ffff-ffff-ffff-ffffffffffff']

export const inboxBench: Bench = async ({ size, startServer }, scope) => {
  const { sessions, users, pages, rounds, ...load } = SIZES[size]
  const cluster = await startServer({ shared_preload_libraries: 'pg_stat_statements' })
  await cluster.admin(`create database ${DATABASE}`)
  const url = cluster.urlOf(DATABASE)
  await migrateUp({ databaseUrl: url })
  const client = new pg.Client(url)
  await client.connect()
  atEnd(scope, () => client.end())
  await client.query('create extension if not exists pg_stat_statements')
  const ids = await fill(client, sessions, users)
  const env = { FLEETLINE_REQUESTS_PER_SOCKET: '1000000' }
  const [writer, reader] = [await startPod(scope, url, env), await startPod(scope, url, env)]

  const pageOf = (user: string) => async () => {
    const { status } = await call('GET', `${reader.gateway}/v1/inbox?user=${user}&limit=${LIMIT}`)
    assert.equal(status, 200)
  }
  const bareOf = (user: string) => () => client.query(PAGE, [TENANT, user, false, ...FIRST, LIMIT + 1])
  const cells = [EVERYWHERE, 'user1'].flatMap((user) => [
    { name: `page of ${user}`, run: () => timesOf(pages, pageOf(user)) },
    { name: `its statement, ${user}`, run: () => timesOf(pages, bareOf(user)) },
  ])
  const times = await runRounds(cells, rounds)
  const p50 = (name: string) => times.get(name)!.map(medianOf)
  const vsBare = (user: string) => ratioOf(p50(`page of ${user}`), p50(`its statement, ${user}`))

  const followers = await Promise.all(
    Array.from({ length: users }, (_, n) => follow(scope, reader.gateway, `user${n}`)),
  )
  const idle = await statementsIn(client, () => pause(load.seconds * 250))
  const sentMs = new Map<string, number>()
  const busy = await statementsIn(client, () => append({ gateway: writer.gateway, ids, sentMs, ...load }))
  const missing = await missingIn(followers, reader.gateway)
  const deltas = followers.flatMap(({ seenMs }) =>
    [...seenMs].flatMap(([at, ms]) => (sentMs.has(at) ? [ms - sentMs.get(at)!] : [])),
  )
  const firsts = followers.map(({ firstMs }) => firstMs)
  const [idleRate, busyRate] = [idle / (load.seconds / 4), busy / load.seconds]
  return {
    ratios: { page_20000_vs_bare: vsBare(EVERYWHERE), page_100_vs_bare: vsBare('user1') },
    times: {
      page_20000_ms: medianOf(p50(`page of ${EVERYWHERE}`)),
      page_100_ms: medianOf(p50('page of user1')),
      snapshot_p50_ms: quantileOf(firsts, 0.5),
      delta_p50_ms: quantileOf(deltas, 0.5),
      delta_p99_ms: quantileOf(deltas, 0.99),
    },
    counts: {
      appended: sentMs.size,
      deltas: deltas.length,
      missing,
      statements_per_second: rounded(busyRate),
      statements_per_second_idle: rounded(idleRate),
    },
    table: [
      ['what', 'n', 'p50 ms', 'p99 ms'],
      ...Array.from(times, ([name, all]) => rowOf(name, all.flat())),
      rowOf(`first frame, ${users} followers at once`, firsts),
      rowOf('message to the frame on the other pod', deltas),
    ],
    faults: missing === 0 ? [] : [`${missing} sessions are not in the inbox of their user as they are`],
    postgres: await versionOf(cluster),
  }
}

function rowOf(name: string, ms: readonly number[]) {
  return [name, ms.length, rounded(quantileOf(ms, 0.5)), rounded(quantileOf(ms, 0.99))]
}

/** Returns the ids of the sessions. Each has one message, and was active on one of the last 400 days. */
async function fill(client: pg.Client, sessions: number, users: number): Promise<string[]> {
  const id = `(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid`
  await client.query(
    `insert into fleetline.sessions (tenant, id, head, title, updated_at)
     select $1, ${id}, 1, 'Session ' || n, now() - (n % $3) * interval '1 day' - n * interval '1 ms'
       from generate_series(1, $2) n`,
    [TENANT, sessions, DAYS],
  )
  await client.query(
    `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
     select now(), $1, ${id}, 1, gen_random_uuid(), 1, 0, 0, 'm', '{"parts":[{"type":"text","text":"hello"}]}'
       from generate_series(1, $2) n`,
    [TENANT, sessions],
  )
  await client.query(
    `insert into fleetline.members (tenant, session, user_id)
     select $1, ${id}, u.name
       from generate_series(1, $2) n cross join lateral (values ('${EVERYWHERE}'), ('user' || n % $3)) u(name)`,
    [TENANT, sessions, users],
  )
  await client.query('vacuum analyze fleetline.sessions, fleetline.members, fleetline.messages')
  const { rows } = await client.query<{ id: string }>('select id from fleetline.sessions order by id')
  return rows.map((row) => formatId('session', 0, row.id))
}

async function timesOf(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let n = 0; n < count; n += 1) {
    const startMs = performance.now()
    await work()
    times.push(performance.now() - startMs)
  }
  return times
}

type Followed = {
  readonly user: string
  readonly firstMs: number
  /** When each head of a session was first seen. */
  readonly seenMs: ReadonlyMap<string, number>
  readonly heads: ReadonlyMap<string, number>
}

async function follow(scope: Scope, gateway: string, user: string): Promise<Followed> {
  const closing = new AbortController()
  atEnd(scope, () => closing.abort())
  const startMs = performance.now()
  const answer = await fetch(`${gateway}/v1/inbox/events?user=${user}&limit=${LIMIT}`, {
    signal: closing.signal,
  })
  const events = answer.body!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
  const [seenMs, heads] = [new Map<string, number>(), new Map<string, number>()]
  const first = Promise.withResolvers<number>()
  const take = async () => {
    for await (const { data } of events) {
      const frame = JSON.parse(data) as InboxFrame
      first.resolve(performance.now() - startMs)
      for (const { session, head } of frame.items) {
        heads.set(session, head)
        const at = `${session}/${head}`
        if (!frame.reset && !seenMs.has(at)) seenMs.set(at, performance.now())
      }
    }
  }
  take().catch(first.reject) // the bench ends
  return { user, firstMs: await first.promise, seenMs, heads }
}

type Load = {
  readonly gateway: string
  readonly ids: readonly string[]
  readonly perSecond: number
  readonly seconds: number
  /** When the message with this seq was sent. */
  readonly sentMs: Map<string, number>
}

/** At a steady rate, whether or not earlier messages are answered. */
async function append({ gateway, ids, perSecond, seconds, sentMs }: Load): Promise<void> {
  const startMs = performance.now()
  const sent: Promise<void>[] = []
  const send = async (session: string, text: string) => {
    const atMs = performance.now()
    const { status, body } = await call('POST', `${gateway}/v1/sessions/${session}/messages`, { text })
    assert.equal(status, 200)
    sentMs.set(`${session}/${String(body['seq'])}`, atMs)
  }
  for (let n = 0; n < perSecond * seconds; n += 1) {
    await pause(Math.max(0, startMs + (n * 1_000) / perSecond - performance.now()))
    sent.push(send(ids[(n * 7_919) % ids.length]!, `message ${n}`))
  }
  await Promise.all(sent)
}

/** Waits until the followers have what the pages show. Returns how many sessions differ if they never have. */
async function missingIn(followers: readonly Followed[], gateway: string): Promise<number> {
  let missing = 0
  for (const { user, heads } of followers) {
    const { body } = await call('GET', `${gateway}/v1/inbox?user=${user}&limit=${LIMIT}`)
    const { items } = body as unknown as InboxPage
    const differing = () => items.filter(({ session, head }) => heads.get(session) !== head).length
    await eventually(() => assert.equal(differing(), 0), { what: `the inbox of ${user}` }).catch(
      () => (missing += differing()),
    )
  }
  return missing
}

/** Without those of the bench itself. */
async function statementsIn(client: pg.Client, work: () => Promise<unknown>): Promise<number> {
  const count = async () => {
    const { rows } = await client.query<{ calls: string }>(
      `select sum(s.calls) as calls from pg_stat_statements s join pg_database d on d.oid = s.dbid
        where d.datname = current_database() and s.query not like '%pg_stat_statements%'`,
    )
    return Number(rows[0]!.calls)
  }
  const before = await count()
  await work()
  return (await count()) - before
}
