// The write path on PostgreSQL: L1 to L5 and L11, and the mutants that must turn the checks red.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { Rejected, Retry } from '../../src/errors.ts'
import { SESSION_LOCK, SESSION_SEEN } from '../../src/session/append.ts'
import type { SessionKey } from '../../src/session/items.ts'
import { valueOf, type Database, type Query } from '../../src/store/database.ts'
import { admin, databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { brokenByLog, createHistory, textDraft } from '../support/history.ts'
import { appenderOn, logOf, sessionFor } from '../support/sessions.ts'
import { openDatabase, withoutStandby } from '../support/store.ts'

type Transactions = Pick<Database, 'transaction'>

/** Four writers write through the pods. Each waits for an answer before its next message, and sends every fifth message twice. */
async function write(pods: readonly Transactions[], key: SessionKey, each: number) {
  const history = createHistory()
  const appenders = pods.map((pod) => appenderOn(pod))
  const writer = async (name: number) => {
    for (let n = 0; n < each; n += 1) {
      const item = { ...key, draft: textDraft(`w${name}-${n}`) }
      const through = (pod: number) => history.send(item, appenders[pod % appenders.length]!.append)
      await (n % 5 === 0 ? Promise.all([through(name), through(name + 1)]) : through(name + n))
    }
  }
  await Promise.all([0, 1, 2, 3].map(writer))
  return history.ops
}

async function open(t: TestContext) {
  const url = await databaseFor(t)
  const pods = [await openDatabase(t, url), await openDatabase(t, url)]
  return { url, pods, key: await sessionFor(pods[0]!) }
}

test('L1 L2 L3 L4 L5: 200 messages of 4 writers through 2 pods are stored as 1 to 200, each at the seq of its ack', async (t) => {
  const { pods, key } = await open(t)
  const ops = await write(pods, key, 50)
  const log = await logOf(pods[0]!, key)
  assert.deepEqual(brokenByLog(ops, log), [])
  assert.equal(log.head, 200)
  assert.deepEqual(
    ops.filter(({ ok }) => ok === undefined),
    [],
  )
})

/** A database whose statements a mutant has changed. */
function mutated(database: Transactions, change: (query: Query) => Query): Transactions {
  return { transaction: (work, options) => database.transaction((query) => work(change(query)), options) }
}

function withoutLock(query: Query): Query {
  return (text, values) =>
    query(text === SESSION_LOCK ? text.replace('for update of s skip locked', '') : text, values)
}

test('mutant, seq without the lock: L2 turns red', async (t) => {
  const { pods, key } = await open(t)
  // The primary key would reject the second of two equal seqs. It is dropped, because this test is about the checker.
  const dropped = await pods[0]!.transaction((query) =>
    query(`alter table fleetline.messages drop constraint messages_pkey,
                                          drop constraint messages_tenant_session_key_key`),
  )
  assert.equal(dropped.type, 'committed')
  const bothHaveRead = Promise.withResolvers<void>()
  let reads = 0
  const inStep =
    (query: Query): Query =>
    async (text, values) => {
      const rows = await withoutLock(query)(text, values)
      if (text === SESSION_SEEN && (reads += 1) === 2) bothHaveRead.resolve()
      if (text === SESSION_SEEN) await bothHaveRead.promise
      return rows as never
    }
  const ops = await write(
    pods.map((pod) => mutated(pod, inStep)),
    key,
    2,
  )
  const broken = brokenByLog(ops, await logOf(pods[0]!, key))
  assert.ok(
    broken.some((line) => line.startsWith('L2')),
    broken.join('\n'),
  )
})

test('mutant, answer before commit: L1 turns red', async (t) => {
  const { pods, key } = await open(t)
  const early = (database: Transactions): Transactions => ({
    transaction: (work, options) =>
      new Promise((resolve) => {
        void database.transaction(async (query) => {
          resolve({ type: 'committed', value: await work(query) })
          throw new Error('the pod dies here')
        }, options)
      }),
  })
  const ops = await write(pods.map(early), key, 1)
  const broken = brokenByLog(ops, await logOf(pods[0]!, key))
  assert.ok(
    broken.some((line) => line.startsWith('L1')),
    broken.join('\n'),
  )
})

test('L4 L11: repeats, a conflict, a wrong ifHead and unknown sessions do not affect the others in their batch', async (t) => {
  const { pods, key } = await open(t)
  const { append } = appenderOn(pods[0]!)
  const nowhere = { ...key, session: '01980000-0000-7000-8000-000000000000' }
  const other = await sessionFor(pods[0]!, 'other')
  const say = (id: string, text?: string) => ({ ...key, draft: textDraft(id, text) })
  assert.deepEqual(await append(say('a')), { type: 'stored', seq: 1, deduped: false })
  const batch = [
    append(say('a')),
    append(say('b')),
    append(say('b')),
    append(say('a', 'other')),
    append({ ...say('c'), ifHead: 1 }),
    append({ ...say('d'), ifHead: 2 }),
    append({ ...say('a'), ifHead: 77 }),
    append({ ...nowhere, draft: textDraft('e') }),
    append({ ...other, tenant: key.tenant, draft: textDraft('f') }),
    append(say('g')),
  ]
  assert.deepEqual(await Promise.all(batch), [
    { type: 'stored', seq: 1, deduped: true },
    { type: 'stored', seq: 2, deduped: false },
    { type: 'stored', seq: 2, deduped: true },
    { type: 'conflict', seq: 1 },
    { type: 'stale', head: 2 },
    { type: 'stored', seq: 3, deduped: false },
    { type: 'stored', seq: 1, deduped: true },
    { type: 'not-found' },
    { type: 'not-found' },
    { type: 'stored', seq: 4, deduped: false },
  ])
  const { entries } = await logOf(pods[0]!, key)
  assert.deepEqual(
    entries.map(({ id }) => id),
    ['a', 'b', 'd', 'g'],
  )
})

test('S15 L11: a message that PostgreSQL cannot store is rejected alone, and the rest of its batch is stored', async (t) => {
  const { pods, key } = await open(t)
  const { append } = appenderOn(pods[0]!)
  const poison = { ...textDraft('poison'), body: '{"parts":["\\u0000"]}' } // over HTTP it would be rejected earlier
  const answers = await Promise.allSettled(
    Array.from({ length: 64 }, (_, n) => append({ ...key, draft: n === 17 ? poison : textDraft(`m${n}`) })),
  )
  const failed = answers.flatMap((answer, n) =>
    answer.status === 'rejected' ? [{ n, reason: answer.reason as unknown }] : [],
  )
  assert.deepEqual(
    failed.map(({ n }) => n),
    [17],
  )
  const { reason } = failed[0]!
  assert.ok(reason instanceof Rejected, String(reason))
  assert.equal(reason.code, 'invalid')
  assert.equal((await logOf(pods[0]!, key)).head, 63)
})

test('an append tries again until another transaction releases the row of its session', async (t) => {
  const { url, pods, key } = await open(t)
  const hasty = await openDatabase(t, url, { lockTimeoutMs: 50 })
  const release = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const holding = pods[0]!.transaction(async (query) => {
    await query(SESSION_LOCK, [[key.tenant], [key.session]])
    held.resolve()
    await release.promise
  })
  await held.promise
  let tries = 0
  const counted = mutated(hasty, (query) => (text, values) => {
    tries += text === SESSION_LOCK ? 1 : 0
    return query(text, values)
  })
  const pending = appenderOn(counted).append({ ...key, draft: textDraft('a') })
  await eventually(() => assert.ok(tries >= 3, `${tries} tries`), { what: 'the third try' })
  release.resolve()
  await holding
  assert.deepEqual(await pending, { type: 'stored', seq: 1, deduped: false })
})

test('L1: a repeat waits for the quorum like the first send, and is not acknowledged without it', async (t) => {
  const { url, pods, key } = await open(t)
  const quorum = pods[0]!
  await appenderOn(quorum).append({ ...key, draft: textDraft('a') })
  const name = await withoutStandby(quorum, url)
  const hit = await appenderOn(mutated(quorum, withoutLock)).append({ ...key, draft: textDraft('a') })
  assert.deepEqual(hit, { type: 'stored', seq: 1, deduped: true }, 'the mutant acknowledges at once')
  const pending = appenderOn(quorum).append({ ...key, draft: textDraft('a') })
  pending.catch(() => undefined) // asserted below
  const waiting = `select pid from pg_stat_activity where wait_event = 'SyncRep' and datname = '${name}'`
  const pid = await eventually(
    async () => {
      const { rows } = await admin(waiting)
      assert.equal(rows.length, 1)
      return rows[0]!['pid'] as number
    },
    { what: 'the repeat to wait for a standby' },
  )
  await admin(`select pg_cancel_backend(${pid})`)
  await assert.rejects(pending, (error) => error instanceof Retry && error.code === 'unavailable')
})

test('an append changes no indexed column, and it finds a repeat in a long session through an index', async (t) => {
  const { pods, key } = await open(t)
  const run = async <Row extends object>(text: string, values: readonly unknown[] = []) =>
    valueOf(await pods[0]!.transaction((query) => query<Row>(text, values)), 'failed')
  const indexed = await run<{ attname: string }>(`
    select distinct a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
     where i.indrelid = 'fleetline.sessions'::regclass order by 1`)
  assert.deepEqual(
    indexed.map(({ attname }) => attname),
    ['alias', 'id', 'tenant'],
  )
  await run(
    `insert into fleetline.messages (at, tenant, session, seq, key, digest, role, author_kind, id, body)
     select now(), $1, $2, n, gen_random_uuid(), n, 0, 0, n::text, '{}' from generate_series(1, 10000) n`,
    [key.tenant, key.session],
  )
  await run('analyze fleetline.messages')
  const plan = await run<Record<string, [{ Plan: Record<string, number> }]>>(
    `explain (analyze, buffers, format json) ${SESSION_SEEN}`,
    [[key.tenant], [key.session], [textDraft('absent').key]],
  )
  const [{ Plan }] = plan[0]!['QUERY PLAN']!
  assert.ok(Plan['Shared Hit Blocks']! + Plan['Shared Read Blocks']! <= 10, JSON.stringify(Plan))
})
