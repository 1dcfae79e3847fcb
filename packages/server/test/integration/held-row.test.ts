// L11, P4: a row that somebody else holds, for as long as the test wants, keeps nobody waiting but what needs that row.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { formatId, uuidV7 } from '@fleetline/protocol'
import { Retry } from '../../src/errors.ts'
import { SESSION_LOCK } from '../../src/session/append.ts'
import type { Query, Transactions } from '../../src/store/database.ts'
import { databaseFor } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { textDraft } from '../support/history.ts'
import { appenderOn, logOf, sessionFor } from '../support/sessions.ts'
import { openDatabase } from '../support/store.ts'
import { DONE, queueOn, TENANT } from '../support/tasks.ts'

const MINUTE_MS = 60_000

/** What was done is neither committed nor rolled back until it is let go. */
async function hold(database: Transactions, work: (query: Query) => Promise<unknown>) {
  const [holds, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const held = database.transaction(
    async (query) => {
      await work(query)
      holds.resolve()
      await free.promise
    },
    { deadlineMs: 2 * MINUTE_MS },
  )
  await holds.promise
  return async () => {
    free.resolve()
    await held
  }
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  return (await Promise.race([promise.then(() => 'ended'), Promise.resolve('pending')])) === 'pending'
}

async function sessionsOn(t: TestContext) {
  const url = await databaseFor(t)
  const [pod, other] = [await openDatabase(t, url), await openDatabase(t, url)]
  const [mine, theirs] = [await sessionFor(pod), await sessionFor(pod)]
  const letGo = await hold(other, (query) =>
    query('select from fleetline.sessions where id = $1 for update', [mine.session]),
  )
  return { pod, mine, theirs, letGo }
}

test('L11 P4: a held session: others are answered, in one batch with it too; let go, it has its order', async (t) => {
  const { pod, mine, theirs, letGo } = await sessionsOn(t)
  const appender = appenderOn(pod)
  const held = ['a', 'b', 'c'].map((id) => appender.append({ ...mine, draft: textDraft(id) }))
  for (let n = 1; n <= 20; n += 1) {
    if (n === 10) held.push(appender.append({ ...mine, draft: textDraft('d') }))
    assert.deepEqual(await appender.append({ ...theirs, draft: textDraft(`n${n}`) }), {
      type: 'stored',
      seq: n,
      deduped: false,
    })
  }
  assert.ok(await isPending(Promise.race(held)))
  await letGo()
  const seqs = (await Promise.all(held)).map((appended) => appended.type === 'stored' && appended.seq)
  assert.deepEqual(seqs, [1, 2, 3, 4])
  const { entries } = await logOf(pod, mine)
  assert.deepEqual(
    entries.map(({ id }) => id),
    ['a', 'b', 'c', 'd'],
  )
})

test('mutant, a batch that waits for the row: the others wait too', async (t) => {
  const { pod, mine, theirs, letGo } = await sessionsOn(t)
  let waits = 0
  const waiting: Transactions = {
    transaction: (work, options) =>
      pod.transaction(
        (query) =>
          work((text, values) => {
            if (text === SESSION_LOCK) waits += 1
            return query(text === SESSION_LOCK ? text.replace('skip locked', '') : text, values)
          }),
        { ...options, lockTimeoutMs: MINUTE_MS },
      ),
  }
  const appender = appenderOn(waiting)
  const both = [mine, theirs].map((key) => appender.append({ ...key, draft: textDraft('a') }))
  await eventually(() => assert.equal(waits, 1), { what: 'the batch to wait' })
  assert.ok(await isPending(both[1]!))
  await letGo()
  await Promise.all(both)
})

test('P4: what waits for a held row is told as unavailable at its deadline', async (t) => {
  const { pod, mine, theirs, letGo } = await sessionsOn(t)
  const appender = appenderOn(pod, { deadlineMs: 1_000 })
  const isUnavailable = (error: unknown) => error instanceof Retry && error.code === 'unavailable'
  await assert.rejects(appender.append({ ...mine, draft: textDraft('a') }), isUnavailable)
  const other = () => appender.append({ ...theirs, draft: textDraft('a') })
  await eventually(async () => assert.equal((await other()).type, 'stored'), { what: 'another to be stored' })
  await letGo()
})

test('L11: an id that an open transaction took: other tasks are enqueued meanwhile, and then that one', async (t) => {
  const { url, enqueuer, tasks } = await queueOn(t)
  const id = formatId('task', 0, uuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10))))
  const spec = { machine: 'work', input: 'held', id }
  const letGo = await hold(await openDatabase(t, url), (query) => enqueuer.enqueueIn(query, TENANT, [spec]))
  const same = enqueuer.enqueue(TENANT, spec)
  const others = Array.from({ length: 20 }, (_, n) => enqueuer.enqueue(TENANT, { machine: 'work', input: n }))
  assert.ok((await Promise.all(others)).every(({ created }) => created))
  assert.ok(await isPending(same))
  await letGo()
  assert.deepEqual(await same, { id, created: false })
  assert.equal((await tasks()).length, 21)
})

test('L11: a task that somebody holds: others are settled meanwhile, and then that one', async (t) => {
  const { url, enqueue, newPod, claim, settle, history } = await queueOn(t)
  await enqueue(9)
  const pod = await newPod()
  const [mine, ...theirs] = await claim(pod)
  const letGo = await hold(await openDatabase(t, url), (query) =>
    query('select from fleetline.tasks where id = $1 for update', [mine!.id]),
  )
  const held = settle(pod, mine!, DONE)
  assert.ok((await Promise.all(theirs.map((one) => settle(pod, one, DONE)))).every((it) => it === 'settled'))
  assert.ok(await isPending(held))
  await letGo()
  assert.equal(await held, 'settled')
  assert.equal((await history()).length, 9)
})
