// Shares on real PostgreSQL: which leader may write them, and two pods that call a provider whose limit they do not know.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import * as pods from '../../src/fleet/pods.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { valueOf, type Query } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { createDownstreams, type Downstream } from '../../src/throttle/pod/downstreams.ts'
import { readDueRows, publishRows } from '../../src/throttle/fleet/duties.ts'
import { createRounds } from '../../src/throttle/fleet/rounds.ts'
import { readStandings } from '../../src/throttle/fleet/standings.ts'
import type { Term } from '../../src/store/leader.ts'
import { atEnd } from '../support/cleanup.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { podRows } from '../support/fleet.ts'
import { silentLog } from '../support/log.ts'
import { podOn } from '../support/pod.ts'
import { providerOf, type Provider } from '../support/provider.ts'
import { proxyFor } from '../support/proxy.ts'
import { openDatabase } from '../support/store.ts'

const KEY = 'provider/account'
const MOST = 200
const LOAD = { gen: 0, inFlight: 3, peak: 3, want: 5, most: MOST, ok: 0, refused: 0, firstsMs: [] }
const TELL = `
  insert into fleetline.downstream_loads values ($1, clock_timestamp(), $2)
  on conflict (pod) do update set at = excluded.at, loads = excluded.loads`

test('downstreams of operators are listed before those of agents', async (t) => {
  const { database, run } = await storeOf(t)
  const loads = Object.fromEntries(
    ['zeta', ...Array.from({ length: 1_001 }, (_, n) => `agent/1/a${n}`), 'alpha'].map((key) => [key, LOAD]),
  )
  await run((query) => query(TELL, [1, JSON.stringify(loads)]))
  const keys = (await readStandings(database)).map(({ key }) => key)
  assert.deepEqual(keys.slice(0, 3), ['alpha', 'zeta', 'agent/1/a0'])
  assert.equal(keys.length, 1_000)
})

async function storeOf(t: TestContext) {
  const url = await databaseFor(t)
  const database = await openDatabase(t, url)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  return { url, database, run }
}

test('a leader with an old term, or with an old view of the row, changes nothing', async (t) => {
  const { run } = await storeOf(t)
  const join = () => run((query) => pods.join(query, { name: 'test', version: '0', tracks: [] }))
  const [first, second] = [await join(), await join()]
  const old = (await run((query) => pods.take(query, first, 0)))!
  await run((query) => query(TELL, [first, JSON.stringify({ [KEY]: LOAD })]))
  const look = () => run(readDueRows)
  const write = (term: Term, rows: Awaited<ReturnType<typeof look>>) =>
    run((query) => publishRows(query, term, rows))
  const stored = () => run((query) => query('select * from fleetline.downstreams'))

  const early = await look()
  assert.deepEqual(await write(old, early), { written: 1, wanted: 1 })
  assert.deepEqual(await look(), [], 'no load is new')
  await run((query) => query(TELL, [first, JSON.stringify({ [KEY]: { ...LOAD, ok: 1 } })]))
  const later = await look()
  const before = await stored()
  assert.deepEqual(await write(old, early), { written: 0, wanted: 1 }, 'the row has changed since')
  const young = (await run((query) => pods.take(query, second, old.term)))!
  assert.deepEqual(await write(old, later), { written: 0, wanted: 1 }, 'another pod leads')
  assert.deepEqual(await stored(), before)
  assert.deepEqual(await write(young, later), { written: 1, wanted: 1 })
  await run((query) => pods.giveUp(query, second))
  await run((query) => query('update fleetline.leader set term = $1, pod = $2', [old.term, first]))
  await run((query) => query(TELL, [first, JSON.stringify({ [KEY]: { ...LOAD, ok: 2 } })]))
  assert.deepEqual(await write(old, await look()), { written: 0, wanted: 1 }, 'the row has a later term')
})

/** Calls the provider until it accepts. */
async function insist(to: Downstream, { url }: Provider, onSend: () => void): Promise<void> {
  for (;;) {
    const status = await to.run(async (call) => {
      onSend()
      const response = await fetch(url, { signal: call.signal })
      call.response(response.status, response.headers)
      await response.text()
      return response.status
    })
    if (status === 200) return
  }
}

const AUDIT = [
  'create table audit as select key, gen, capacity, shares from fleetline.downstreams',
  `create function note() returns trigger language plpgsql as $$ begin
     insert into audit select new.key, new.gen, new.capacity, new.shares; return new; end $$`,
  `create trigger audit after insert or update on fleetline.downstreams for each row execute function note()`,
]
type Audit = {
  readonly gen: string
  readonly capacity: number | null
  readonly shares: Readonly<Record<string, { readonly share: number }>>
}

test('T1: two pods at a provider with a hidden limit get all calls through, and none exceeds its share', async (t) => {
  const { url, database, run } = await storeOf(t)
  for (const text of AUDIT) await run((query) => query(text))
  const provider = await providerOf(t, { limit: 6, ms: 60 })
  const sends: { readonly pod: string; readonly gen: number; readonly held: number }[] = []
  const work = async (name: string) => {
    const { pod } = await podOn(t, url, { podName: name })
    const to = pod.downstream(KEY, { maxWait: '2m' })
    const note = () => sends.push({ pod: name, ...to.standing() })
    await Promise.all(Array.from({ length: 150 }, () => insist(to, provider, note)))
    await eventually(() => assert.equal(to.standing().held, 0), { what: 'all permits to be back' })
  }
  await Promise.all([work('one'), work('two')])
  assert.equal(provider.books.taken, 300)
  assert.equal(sends.length, 300 + provider.books.refused)

  const ids = new Map((await podRows(database)).map(({ name, pod }) => [name, pod]))
  const rows = await run((query) => query<Audit>('select gen, capacity, shares from audit order by gen'))
  assert.notEqual(rows.at(-1)!.capacity, null, 'the capacity was not learnt')
  for (const { gen, capacity, shares } of rows) {
    const sum = Object.values(shares).reduce((total, { share }) => total + share, 0)
    if (capacity !== null)
      assert.ok(sum <= Math.max(1, Math.floor(capacity)), `row ${gen}: ${sum} of ${capacity}`)
  }
  const byGen = new Map(rows.map((row) => [Number(row.gen), row]))
  const above = sends.filter(({ pod, gen, held }) => {
    const row = byGen.get(gen)
    const named = row?.shares[ids.get(pod)!]?.share
    return held > Math.max(1, named ?? (row && row.capacity !== null ? 1 : MOST))
  })
  assert.deepEqual(above, [])
})

/** The downstreams of one pod. There is no leader; the test writes the shares that the pod reads. */
async function podOf(t: TestContext, url: string, pod: number) {
  const [database, clock] = [await openDatabase(t, url), systemClock()]
  const downstreams = createDownstreams({
    clock,
    random: systemRandom(),
    metrics: createMetrics(),
    defined: [],
    throttle: 'enforce',
    turnSlots: 1_000,
    onNews: () => rounds.wake(),
  })
  const rounds = createRounds({
    database,
    clock,
    log: silentLog(),
    reporters: downstreams.inUse,
    self: () => pod,
  })
  atEnd(t, () => rounds.stop())
  await rounds.start()
  return { to: downstreams.get(KEY), stop: async () => rounds.stop() }
}

// $1 key · $2 pods · $3 the share of each · $4 the lease, in ms
const GIVE = `
  insert into fleetline.downstreams as d (key, term, gen, capacity, memory, shares, safe_share, expires_at)
  select $1, 1, 1, 10, '{"isRefusing": false}', jsonb_object_agg(pod, jsonb_build_object('share', $3::int, 'at',
         extract(epoch from clock_timestamp()) * 1000)), 2, clock_timestamp() + $4 * interval '1 ms'
    from unnest($2::int[]) pod
  on conflict (key) do update set gen = d.gen + 1, shares = excluded.shares, expires_at = excluded.expires_at`

test('T3: if a provider asks one pod to wait ten seconds or longer, all pods wait', async (t) => {
  const { url, run } = await storeOf(t)
  const [{ to: one }, { to: two }] = [await podOf(t, url, 7), await podOf(t, url, 8)]
  const refused = Object.assign(new Error('429'), { status: 429, headers: { 'retry-after': '3600' } })
  await run((query) => query(GIVE, [KEY, [7, 8], 5, 3_600_000]))
  await two.run(async () => undefined)
  await assert.rejects(one.run(() => Promise.reject(refused)))
  const paused = () => {
    const until = two.standing().pausedUntil?.getTime() ?? 0
    assert.ok(until > Date.now() + 3_000_000, `paused until ${until}`)
  }
  await eventually(paused, { what: 'the other pod to pause' })
  const [row] = await run((query) =>
    query<{ left: number }>(
      'select extract(epoch from pause_until - now())::int as left from fleetline.downstreams',
    ),
  )
  // The row contains the wait that the provider asked for, without the time that pods add to it.
  assert.ok(row!.left > 3_000 && row!.left <= 3_600, `${row!.left} s`)
})

test('T1: a pod that stops reports the share that it gives up, and sends nothing more with it', async (t) => {
  const { url, run } = await storeOf(t)
  const [idle, busy] = [await podOf(t, url, 7), await podOf(t, url, 8)]
  const free = Promise.withResolvers<void>()
  atEnd(t, free.resolve)
  await idle.to.run(async () => undefined)
  const call = busy.to.run(() => free.promise)
  await Promise.all([idle.stop(), busy.stop()])
  const tellers = await run((query) =>
    query('select pod, (loads -> $1 ->> $2)::int as most from fleetline.downstream_loads order by pod', [
      KEY,
      'most',
    ]),
  )
  assert.deepEqual(tellers, [
    { pod: 7, most: 0 },
    { pod: 8, most: MOST },
  ])
  await assert.rejects(
    idle.to.run(async () => assert.fail('sent')),
    { code: 'unavailable', message: 'This pod stops; nothing was sent' },
  )
  free.resolve()
  await call
})

test('T6: without leader and database, calls stay within the safe share and do not wait for either', async (t) => {
  const { url, run } = await storeOf(t)
  const proxy = await proxyFor(t, url)
  const give = (share: number, ms: number) => run((query) => query(GIVE, [KEY, [7], share, ms]))
  const { to } = await podOf(t, proxy.url, 7)
  const busy = (count: number) => {
    const free = Promise.withResolvers<void>()
    let [now, peak] = [0, 0]
    const body = async () => {
      peak = Math.max(peak, (now += 1))
      await free.promise
      now -= 1
    }
    const runs = Promise.all(Array.from({ length: count }, () => to.run(body, { maxWait: '2m' })))
    return { free: free.resolve, runs, peak: () => peak, now: () => now }
  }
  await give(6, 3_600_000)
  const first = busy(20)
  const renew = async () => {
    await give(6, 3_600_000) // a share is valid only while the report behind it is recent
    assert.equal(first.now(), 6)
  }
  await eventually(renew, { what: 'the share to be read' })
  await give(6, 10)
  await eventually(() => assert.equal(to.standing().limit, 2), { what: 'the end of the lease' })
  proxy.refuse(true)
  proxy.reset()
  first.free()
  await first.runs
  const alone = busy(20)
  await eventually(() => assert.equal(alone.now(), 2), { what: 'the safe share to be used' })
  alone.free()
  await alone.runs
  assert.equal(first.peak(), 6)
  assert.equal(alone.peak(), 2)
  assert.equal(to.standing().held, 0)
  proxy.refuse(false)
  const again = async () => {
    await give(6, 3_600_000)
    assert.equal(to.standing().share, 6)
  }
  await eventually(again, { what: 'the share to be read again' })
})
