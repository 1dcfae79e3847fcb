// L11, P4: another transaction locks a row for as long as the test wants. Only work that needs this row waits for it.
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

/** Does the work in a transaction that stays open until the returned function is called. */
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

test('L11 P4: while a session is locked, others are answered, even in its batch; then its own are stored in order', async (t) => {
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
  assert.ok(await isPending(Promise.race(held)), 'the locked session has no answer yet')
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
  assert.ok(await isPending(both[1]!), 'the other session has no answer yet')
  await letGo()
  await Promise.all(both)
})

test('P4: an append that waits for a locked row fails as unavailable at its deadline', async (t) => {
  const { pod, mine, theirs, letGo } = await sessionsOn(t)
  const appender = appenderOn(pod, { deadlineMs: 1_000 })
  const isUnavailable = (error: unknown) => error instanceof Retry && error.code === 'unavailable'
  await assert.rejects(appender.append({ ...mine, draft: textDraft('a') }), isUnavailable)
  const other = () => appender.append({ ...theirs, draft: textDraft('a') })
  await eventually(async () => assert.equal((await other()).type, 'stored'), { what: 'another to be stored' })
  await letGo()
})

test('L11: an enqueue waits for the open transaction that has its id, and other tasks are enqueued meanwhile', async (t) => {
  const { url, enqueuer, tasks } = await queueOn(t)
  const id = formatId('task', 0, uuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10))))
  const spec = { machine: 'work', input: 'held', id }
  const letGo = await hold(await openDatabase(t, url), (query) => enqueuer.enqueueIn(query, TENANT, [spec]))
  const same = enqueuer.enqueue(TENANT, spec)
  const others = Array.from({ length: 20 }, (_, n) => enqueuer.enqueue(TENANT, { machine: 'work', input: n }))
  assert.deepEqual(
    (await Promise.all(others)).filter(({ created }) => !created),
    [],
  )
  assert.ok(await isPending(same), 'the task with the same id has no answer yet')
  await letGo()
  assert.deepEqual(await same, { id, created: false })
  assert.equal((await tasks()).length, 21)
})

test('L11: a settlement waits while its task is locked, and other tasks are settled meanwhile', async (t) => {
  const { url, enqueue, newPod, claim, settle, history } = await queueOn(t)
  await enqueue(9)
  const pod = await newPod()
  const [mine, ...theirs] = await claim(pod)
  const letGo = await hold(await openDatabase(t, url), (query) =>
    query('select from fleetline.tasks where id = $1 for update', [mine!.id]),
  )
  const held = settle(pod, mine!, DONE)
  const others = await Promise.all(theirs.map((one) => settle(pod, one, DONE)))
  assert.deepEqual(
    others,
    theirs.map(() => 'settled'),
  )
  assert.ok(await isPending(held), 'the locked task has no answer yet')
  await letGo()
  assert.equal(await held, 'settled')
  assert.equal((await history()).length, 9)
})
