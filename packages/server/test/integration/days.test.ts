// The daily partitions of the task history are created and dropped while others read and write it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import pg from 'pg'
import type { Query, Transactions } from '../../src/store/database.ts'
import { makePartitions, dropPartitions } from '../../src/task/partitions.ts'
import { atEnd } from '../support/cleanup.ts'
import { openDatabase } from '../support/store.ts'
import { DONE, queueOn } from '../support/tasks.ts'

type Queue = Awaited<ReturnType<typeof queueOn>>

const ATTACHED = `select inhrelid::regclass::text as name from pg_inherits
  where inhparent = 'fleetline.task_history'::regclass order by 1`
const TABLES = `select oid::regclass::text as name from pg_class
  where relkind = 'r' and relname ~ '^task_history_' order by 1`
const OLD = 'fleetline.task_history_20200101'
const AHEAD = 8 // today and the next seven days

const namesOf = async ({ run }: Queue, text: string) =>
  (await run((query) => query<{ name: string }>(text))).map(({ name }) => name)

/** Creates the missing days first: the date may have changed since the run began. */
async function daysOf(queue: Queue): Promise<string[]> {
  await makePartitions(queue.database)
  return namesOf(queue, ATTACHED)
}

/** Adds a day that no queue keeps any more. */
async function addOldDay({ run }: Queue): Promise<void> {
  await run((query) =>
    query(
      `create table ${OLD} partition of fleetline.task_history for values from ('2020-01-01') to ('2020-01-02')`,
    ),
  )
}

async function settleOne({ enqueue, newPod, claim, settle }: Queue): Promise<void> {
  await enqueue(1)
  const pod = await newPod()
  assert.equal(await settle(pod, (await claim(pod))[0]!, DONE), 'settled')
}

/** Opens a transaction that has read the history and stays open, such as a backup or a report. */
async function openReader(t: TestContext, url: string): Promise<pg.Client> {
  const reader = new pg.Client(url)
  await reader.connect()
  atEnd(t, () => reader.end())
  await reader.query('begin isolation level repeatable read')
  await reader.query('select count(*) from fleetline.task_history')
  return reader
}

test('a settlement that finds no day creates them a week ahead, each with the indexes of the history', async (t) => {
  const queue = await queueOn(t)
  const made = await daysOf(queue)
  for (const name of made) await queue.run((query) => query(`drop table ${name}`))
  await settleOne(queue)
  assert.equal((await queue.history()).length, 1)
  assert.deepEqual((await namesOf(queue, ATTACHED)).slice(-AHEAD), made.slice(-AHEAD))
  const counts = await queue.run((query) =>
    query<{ ours: number; wanted: number }>(`
      select count(c.indexrelid)::int as ours, (select count(*)::int from pg_index where indrelid = i.inhparent) as wanted
        from pg_inherits i left join pg_index c on c.indrelid = i.inhrelid
       where i.inhparent = 'fleetline.task_history'::regclass group by i.inhrelid, i.inhparent`),
  )
  assert.ok(
    counts.every(({ ours, wanted }) => ours === wanted),
    JSON.stringify(counts),
  )
})

test('a day that no queue keeps is dropped, also after vacuum analyze; a day that a queue keeps stays', async (t) => {
  const queue = await queueOn(t)
  const made = await daysOf(queue)
  await addOldDay(queue)
  const analyst = new pg.Client(queue.url)
  await analyst.connect()
  await analyst.query('vacuum analyze').finally(() => analyst.end())
  await dropPartitions(queue.database)
  assert.deepEqual(await namesOf(queue, TABLES), [`${OLD}_detached`, ...made].toSorted())
  await dropPartitions(queue.database)
  assert.deepEqual(await namesOf(queue, TABLES), made)
  await queue.run((query) => query(`update fleetline.queues set keep = '100 years'`))
  await addOldDay(queue)
  await dropPartitions(queue.database)
  assert.deepEqual(await namesOf(queue, ATTACHED), [OLD, ...made])
})

test('a long read of the history delays neither new days nor settlements; the drop waits for it', async (t) => {
  const queue = await queueOn(t)
  const made = await daysOf(queue)
  await addOldDay(queue)
  await queue.run((query) => query(`drop table ${made.at(-1)}`))
  const reader = await openReader(t, queue.url)
  await makePartitions(queue.database)
  assert.deepEqual((await namesOf(queue, ATTACHED)).slice(-AHEAD), made.slice(-AHEAD))
  const dropping = dropPartitions(queue.database)
  for (let n = 0; n < 10; n += 1) await settleOne(queue)
  await dropping
  const during = await namesOf(queue, ATTACHED)
  assert.ok(during.includes(OLD), `attached during the read: ${during.join(', ')}`)
  await settleOne(queue)
  await reader.query('commit')
  await dropPartitions(queue.database)
  const after = await namesOf(queue, ATTACHED)
  assert.ok(!after.includes(OLD), `attached after the read: ${after.join(', ')}`)
})

test('a detached day that is needed again is attached with its rows', async (t) => {
  const queue = await queueOn(t)
  await settleOne(queue)
  const before = await daysOf(queue)
  const today = await namesOf(queue, 'select tableoid::regclass::text as name from fleetline.task_history')
  await queue.run((query) => query(`alter table fleetline.task_history detach partition ${today[0]}`))
  assert.equal((await queue.history()).length, 0)
  await makePartitions(queue.database)
  assert.deepEqual(await namesOf(queue, ATTACHED), before)
  assert.equal((await queue.history()).length, 1)
})

test('a drop waits 20 ms for a lock and releases it in the same message; it leaves a day that others detached', async (t) => {
  const queue = await queueOn(t)
  await addOldDay(queue)
  const [config] = await queue.run((query) =>
    query<{ text: string }>(`select proconfig::text as text from pg_proc where proname = 'drop_partitions'`),
  )
  assert.match(config!.text, /lock_timeout=20ms/)
  const other = await openDatabase(t, queue.url)
  const count = (query: Query) => query('select count(*) from fleetline.task_history')
  const slow: Transactions = {
    transaction: (work, options) =>
      queue.database.transaction(async (query) => {
        const value = await work(query)
        assert.equal((await other.transaction(count, { deadlineMs: 10_000 })).type, 'committed')
        return value
      }, options),
  }
  await dropPartitions(slow)
  await queue.run((query) => query(`alter table ${OLD}_detached rename to task_history_20200102`))
  await dropPartitions(queue.database)
  const tables = await namesOf(queue, TABLES)
  assert.ok(tables.includes('fleetline.task_history_20200102'), tables.join(', '))
})
