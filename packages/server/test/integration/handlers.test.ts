// Q14: how each end of a handler is stored, through a whole pod. Q15 and P3: tasks that a pod claims and does not run.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { z } from 'zod'
import { Retry } from '../../src/errors.ts'
import type { Pod } from '../../src/pod.ts'
import type { Database } from '../../src/store/database.ts'
import { readHeldClaims } from '../../src/task/claim.ts'
import { task } from '../../src/machine/definition.ts'
import { abort, retryAfter } from '../../src/machine/outcomes.ts'
import type { Machine } from '../../src/task/machine.ts'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { newPod } from '../support/pod.ts'
import { queueOn } from '../support/tasks.ts'
import { workerOn } from '../support/worker.ts'

async function podWith(t: TestContext, url: string, ...tasks: readonly Machine[]): Promise<Pod> {
  const pod = newPod(t, url, {}, { tasks })
  await pod.start()
  return pod
}

test('Q14: each way in which a handler can end is stored as declared', async (t) => {
  const { url, tasks, history } = await queueOn(t)
  const once = { attempts: 1 }
  const definitions = [
    task('returns', (c) => ({ got: c.input as string })),
    task('returns.nothing', () => undefined),
    task(
      'throws',
      () => {
        throw Object.assign(new Error('no luck'), { code: 'ECONNREFUSED' })
      },
      { attempts: 20 },
    ),
    task('throws.last', () => Promise.reject(new Error('no luck')), once),
    task('asks.later', () => retryAfter('1h')),
    task('throws.retry', () => Promise.reject(new Retry('rate_limited', 'slowly', { afterMs: 3_600_000 }))),
    task('aborts', () => abort('never')),
    task('too.large', () => 'x'.repeat(70_000)),
    task('too.slow', () => new Promise<void>(() => undefined), { timeout: '1ms', ...once }),
  ]
  const pod = await podWith(t, url, ...definitions)
  await pod.enqueueAll(definitions.map((machine) => ({ machine, input: 'x' })))
  const machineOf = await machinesOf(t, url)
  const ended = await eventually(
    async () => {
      const rows = [...(await history()), ...(await tasks())]
      assert.deepEqual(
        rows.filter((row) => 'state' in row && ['ready', 'claimed'].includes(row.state)),
        [],
      )
      return rows.map((row) => ({
        machine: machineOf.get(row.id),
        end: {
          state: 'outcome' in row ? row.outcome : row.state,
          isCounted: row.spent > 0,
          result: 'result' in row ? row.result : undefined,
          code: row.error?.code,
        },
      }))
    },
    { what: 'every task to end' },
  )
  assert.deepEqual(
    new Map(ended.map(({ machine, end }) => [machine, end])),
    new Map<unknown, unknown>([
      ['returns', { state: 'done', isCounted: true, result: { got: 'x' }, code: undefined }],
      ['returns.nothing', { state: 'done', isCounted: true, result: null, code: undefined }],
      ['throws', { state: 'waiting', isCounted: true, result: undefined, code: 'ECONNREFUSED' }],
      ['throws.last', { state: 'dead', isCounted: true, result: undefined, code: 'failed' }],
      ['asks.later', { state: 'waiting', isCounted: false, result: undefined, code: 'later' }],
      ['throws.retry', { state: 'waiting', isCounted: false, result: undefined, code: 'rate_limited' }],
      ['aborts', { state: 'failed', isCounted: true, result: null, code: 'aborted' }],
      ['too.large', { state: 'dead', isCounted: true, result: undefined, code: 'too_large' }],
      ['too.slow', { state: 'dead', isCounted: true, result: undefined, code: 'timeout' }],
    ]),
  )
})

async function machinesOf(t: TestContext, url: string): Promise<ReadonlyMap<string, string>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  atEnd(t, () => client.end())
  const { rows } = await client.query<{ id: string; machine: string }>(
    `select x.id, k.machine from fleetline.tracks k
       join (select id, track from fleetline.tasks union all select id, track from fleetline.task_history) x
         on x.track = k.id`,
  )
  return new Map(rows.map(({ id, machine }) => [id, machine]))
}

test('an input is validated when it is enqueued and before it runs; the handler receives the parsed value', async (t) => {
  const { url, run, tasks, history } = await queueOn(t)
  const input = z.object({ at: z.coerce.date<string>() })
  const machine = task('at', (c) => c.input.at.getUTCFullYear(), { input })
  const pod = await podWith(t, url, machine)
  await assert.rejects(pod.enqueue({ machine: 'at', input: { at: 'no date' } }), /input\.at: /)
  await pod.enqueue({ machine, input: { at: '2026-11-16' } })
  await run((query) => query(`select fleetline.enqueue('default', 'at', '{}')`))
  await eventually(
    async () => {
      assert.deepEqual(
        (await history()).map(({ result }) => result),
        [2026],
      )
      const [dead] = await tasks()
      assert.deepEqual(
        { state: dead?.state, code: dead?.error?.code, spent: dead?.spent },
        { state: 'dead', code: 'invalid', spent: 1 },
      )
    },
    { what: 'one task to run and the other to be dead' },
  )
})

test('a task that failed is retried under the same key, with the number of the next attempt', async (t) => {
  const { url, run, history } = await queueOn(t)
  const seen: object[] = []
  const machine = task('flaky', (c) => {
    seen.push({ key: c.key, attempt: c.attempt, maxAttempts: c.maxAttempts, isAborted: c.signal.aborted })
    if (c.attempt < 3) throw new Error('not yet')
    return 'at last'
  })
  const pod = await podWith(t, url, machine)
  const { id } = await pod.enqueue({ machine })
  const hurry = `update fleetline.tasks set run_at = now() where state = 'waiting'`
  const [row] = await eventually(
    async () => {
      await run((query) => query(hurry))
      const rows = await history()
      assert.equal(rows.length, 1)
      return rows
    },
    { what: 'the third attempt' },
  )
  const { outcome, result, attempt, spent } = row!
  assert.deepEqual(
    { outcome, result, attempt, spent },
    { outcome: 'done', result: 'at last', attempt: 3, spent: 3 },
  )
  assert.deepEqual(
    seen,
    [1, 2, 3].map((n) => ({ key: id, attempt: n, maxAttempts: 5, isAborted: false })),
  )
})

test('Q10: a task that a pod enqueues in the caller’s own pg transaction runs only if that commits', async (t) => {
  const { url, history } = await queueOn(t)
  const machine = task('step', (c) => c.input as number)
  const pod = await podWith(t, url, machine)
  const tx = new pg.Client({ connectionString: url })
  await tx.connect()
  atEnd(t, () => tx.end())
  for (const end of ['rollback', 'commit']) {
    await tx.query('begin')
    await pod.enqueueAll([{ machine, input: end === 'commit' ? 1 : 0 }], { tx })
    await tx.query(end)
  }
  await eventually(
    async () =>
      assert.deepEqual(
        (await history()).map(({ result }) => result),
        [1],
      ),
    { what: 'the task that was committed, and no other' },
  )
})

type Transactions = Pick<Database, 'transaction'>

/** The first claim that takes a task commits, but its answer is lost. */
function losingOneClaim(database: Transactions): Transactions & { readonly isLost: () => boolean } {
  let isLost = false
  return {
    isLost: () => isLost,
    transaction: async (work, options) => {
      let isClaim = false
      const outcome = await database.transaction(
        (query) =>
          work(async (text, values) => {
            const rows = await query(text, values)
            isClaim ||= text.includes('cross join lateral') && rows.length > 0
            return rows as never
          }),
        options,
      )
      if (isLost || !isClaim || outcome.type !== 'committed') return outcome
      isLost = true
      return { type: 'unknown', error: new Error('lost') }
    },
  }
}

test('Q15: tasks of a claim whose answer was lost are handed back and run; the lost attempt does not count', async (t) => {
  const { database, enqueue, newPod: joined, history, tasks } = await queueOn(t)
  const losing = losingOneClaim(database)
  const [id, { signal }] = [await joined(), new AbortController()]
  await enqueue(3)
  await workerOn(t, losing, { self: () => ({ id, signal }), isFenced: () => false })
  await eventually(async () => assert.equal((await history()).length, 3), { what: 'all to run' })
  assert.equal(losing.isLost(), true)
  assert.deepEqual(
    (await history()).map(({ attempt, spent }) => ({ attempt, spent })),
    [2, 2, 2].map((attempt) => ({ attempt, spent: 1 })),
  )
  assert.deepEqual(await tasks(), [])
})

test('mutant of Q15: a pod that does not look up its claims keeps a lost one for ever', async (t) => {
  const { database, run, enqueue, newPod: joined } = await queueOn(t)
  const losing = losingOneClaim(database)
  let looks = 0
  const blind: Transactions = {
    transaction: (work, options) =>
      losing.transaction(
        (query) =>
          work(async (text, values) => {
            const isLook = text.includes('where pod = $1')
            looks += isLook && losing.isLost() ? 1 : 0
            return isLook ? [] : query(text, values)
          }),
        options,
      ),
  }
  const [id, { signal }] = [await joined(), new AbortController()]
  await enqueue(3)
  await workerOn(t, blind, { self: () => ({ id, signal }), isFenced: () => false })
  await eventually(() => assert.ok(looks > 0, `${looks} looks`), { what: 'a look after the loss' })
  assert.equal((await run((query) => readHeldClaims(query, id))).length, 3)
})

test('P3: a fenced pod claims nothing, and hands back what it claimed just before it was fenced', async (t) => {
  const { database, enqueue, newPod: joined, history, tasks } = await queueOn(t)
  let isFenced = true
  let claims = 0
  const fencing: Transactions = {
    transaction: async (work, options) => {
      const outcome = await database.transaction(
        (query) =>
          work(async (text, values) => {
            claims += text.includes('cross join lateral') ? 1 : 0
            return query(text, values)
          }),
        options,
      )
      if (claims === 1) isFenced = true // before the pod gets the answer
      return outcome
    },
  }
  const [id, { signal }] = [await joined(), new AbortController()]
  await enqueue(1)
  let asked = 0
  const fleet = { self: () => ({ id, signal }), isFenced: () => (asked += 1) > 0 && isFenced }
  await workerOn(t, fencing, fleet)
  await eventually(() => assert.ok(asked > 3, `asked ${asked} times`), { what: 'a few rounds' })
  assert.equal(claims, 0)
  isFenced = false
  const back = { what: 'the claim to be handed back' }
  await eventually(async () => {
    const [row] = await tasks()
    assert.deepEqual(
      { state: row?.state, attempt: row?.attempt, spent: row?.spent },
      { state: 'ready', attempt: 1, spent: 0 },
    )
  }, back)
  claims += 1 // from now on the pod is not fenced again
  isFenced = false
  await eventually(async () => assert.equal((await history()).length, 1), { what: 'the task to run' })
})

/** Runs seven suspects on one pod. `most`: the most that ran at once. `tooMany`: more ran than one plus those that had ended. */
async function crowds(t: TestContext, runMs: number, mutate = (text: string) => text) {
  const { database, run, enqueue, newPod: joined, history } = await queueOn(t)
  await enqueue(7)
  await run((query) => query(`update fleetline.tasks set state = 'waiting', spent = 2, reason = 'suspect'`))
  const mutant: Transactions = {
    transaction: (work, options) =>
      database.transaction((query) => work((text, values) => query(mutate(text), values)), options),
  }
  const [seen, count] = [
    { most: 0, tooMany: false },
    { running: 0, ended: 0 },
  ]
  const machine = task('work', async () => {
    count.running += 1
    seen.most = Math.max(seen.most, count.running)
    seen.tooMany ||= count.running > 1 + count.ended
    await pause(runMs)
    count.running -= 1
    count.ended += 1
  })
  const [id, { signal }] = [await joined(), new AbortController()]
  await workerOn(t, mutant, { self: () => ({ id, signal }), isFenced: () => false }, { machines: [machine] })
  await eventually(async () => assert.equal((await history()).length, 7), { what: 'all to run' })
  assert.deepEqual(
    (await history()).map(({ spent }) => spent),
    [3, 3, 3, 3, 3, 3, 3],
  )
  return seen
}

test('Q6: a pod runs one suspect at first, and one more for each that has ended', async (t) => {
  const { most, tooMany } = await crowds(t, 500)
  assert.ok(most > 1, `${most} at once`)
  assert.equal(tooMany, false, `${most} at once`)
})

test('mutant of Q6: without the limit a pod runs more suspects at once', async (t) => {
  const { most, tooMany } = await crowds(t, 500, (text) => text.replaceAll('limit $4', 'limit $4 + 9'))
  assert.equal(tooMany, true, `${most} at once`)
})
