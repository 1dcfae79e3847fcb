// How attempts end, on real PostgreSQL. A writer whose attempt is no longer current changes nothing.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Database, Query } from '../../src/store/database.ts'
import type { Claim } from '../../src/task/claim.ts'
import { promote } from '../../src/task/due.ts'
import { RECORD, type Recording, type Settlement } from '../../src/task/settle.ts'
import { DONE, doneWith, partsOn, queueOn } from '../support/tasks.ts'

const error = JSON.stringify({ code: 'internal', message: 'no luck', stack: 'here' })
const KINDS: readonly Settlement[] = [
  DONE,
  { type: 'failed', error },
  { type: 'retry', delayMs: 0, error },
  { type: 'later', delayMs: 0, error },
  { type: 'back' },
  { type: 'held', reason: 'hold', error },
  { type: 'dead', error },
]
const RETURN = `update fleetline.tasks set state = 'ready', pod = null, reason = 'pod_lost',
  error = jsonb_build_object('code', 'pod_lost', 'pod', pod, 'attempt', attempt) where state = 'claimed'`

test('every settlement leaves the row that the table in settle.ts names', async (t) => {
  const { enqueue, newPod, claim, settle, tasks, history } = await queueOn(t)
  await enqueue(KINDS.length)
  const pod = await newPod()
  const claims = await claim(pod)
  const settled = await Promise.all(claims.map((one, n) => settle(pod, one, KINDS[n]!)))
  assert.deepEqual(
    settled,
    KINDS.map(() => 'settled'),
  )
  assert.deepEqual(
    new Set((await history()).map(({ outcome, attempt, spent }) => `${outcome} ${attempt} ${spent}`)),
    new Set(['done 1 1', 'failed 1 1']),
  )
  const rows = (await tasks()).map(({ state, attempt, spent, reason, error: kept }) => ({
    state,
    attempt,
    spent,
    reason,
    code: kept?.code,
  }))
  assert.deepEqual(rows, [
    { state: 'waiting', attempt: 1, spent: 1, reason: 'retry', code: 'internal' },
    { state: 'waiting', attempt: 1, spent: 0, reason: 'later', code: 'internal' },
    { state: 'ready', attempt: 1, spent: 0, reason: null, code: undefined },
    { state: 'held', attempt: 1, spent: 1, reason: 'hold', code: 'internal' },
    { state: 'dead', attempt: 1, spent: 1, reason: 'failed', code: 'internal' },
  ])
})

test('an error carries the last five attempts, without their stacks', async (t) => {
  const { enqueue, newPod, claim, settle, run, tasks } = await queueOn(t)
  await enqueue(1)
  const pod = await newPod()
  for (let n = 1; n <= 7; n += 1) {
    const text = JSON.stringify({ code: 'internal', message: `try ${n}`, stack: 'here' })
    await settle(pod, (await claim(pod))[0]!, { type: 'retry', delayMs: 0, error: text })
    await run(promote)
  }
  const [row] = await tasks()
  assert.deepEqual(
    row!.error!.attempts,
    [3, 4, 5, 6, 7].map((n) => ({ code: 'internal', message: `try ${n}` })),
  )
})

/** A pod claims attempt 1, the task is returned, and another pod (or the same one) claims attempt 2. */
async function overtaken(t: Parameters<typeof queueOn>[0], byTheSame = false) {
  const queue = await queueOn(t)
  const { enqueue, newPod, claim, run } = queue
  await enqueue(1)
  const sleeper = await newPod()
  const [old] = await claim(sleeper)
  await run((query) => query(RETURN))
  const other = byTheSame ? sleeper : await newPod()
  const [current] = await claim(other)
  return { ...queue, sleeper, other, old: old!, current: current! }
}

/** Settles attempt 1 too late, and returns what that broke, one sentence each. */
async function lateWriter(
  t: Parameters<typeof queueOn>[0],
  settlement: Settlement,
  { byTheSame = false, mutate = (text: string) => text } = {},
): Promise<string[]> {
  const { database, sleeper, other, old, current, tasks, history, settle } = await overtaken(t, byTheSame)
  const mutant: Pick<Database, 'transaction'> = {
    transaction: (work, options) =>
      database.transaction((query) => {
        const mutated: Query = (text, values) => query(mutate(text), values)
        return work(mutated)
      }, options),
  }
  const before = await tasks()
  const answer = await partsOn(mutant).settle(sleeper, old, settlement)
  const after = await tasks()
  const second = await settle(other, current, doneWith('result-2'))
  const ends = (await history()).map(({ result, attempt, pod }) => [result, attempt, pod])
  const broken: string[] = []
  if (answer !== 'fenced') broken.push('the late writer was not told')
  if (JSON.stringify(before) !== JSON.stringify(after)) broken.push('a row changed')
  if (second !== 'settled' || JSON.stringify(ends) !== JSON.stringify([['result-2', 2, other]]))
    broken.push('the second result is not stored')
  return broken
}

test('Q3: a paused pod that wakes cannot overwrite the retry', async (t) => {
  for (const settlement of KINDS)
    for (const byTheSame of [false, true]) {
      const broken = await lateWriter(t, settlement, { byTheSame })
      assert.deepEqual(broken, [], `${settlement.type}, byTheSame ${byTheSame}: ${broken.join()}`)
    }
})

test('Q3: mutants that settle by the task alone, or without the attempt, are found', async (t) => {
  const byTask = (text: string) => text.replace(/ and t\.attempt = (\w)\.attempt and t\.pod = \1\.pod/, '')
  const blindToAttempt = (text: string) => text.replace(/ and t\.attempt = \w\.attempt/, '')
  for (const settlement of [DONE, { type: 'back' } as const]) {
    const broken = await lateWriter(t, settlement, { mutate: byTask })
    assert.ok(broken.includes('the second result is not stored'), broken.join())
    const same = await lateWriter(t, settlement, { mutate: blindToAttempt, byTheSame: true })
    assert.ok(same.includes('the second result is not stored'), same.join())
  }
})

test('Q3: a late writer is fenced before the task is claimed again, and after it has ended', async (t) => {
  const { enqueue, newPod, claim, settle, run, history, tasks } = await queueOn(t)
  await enqueue(1)
  const [sleeper, other] = [await newPod(), await newPod()]
  const [old] = await claim(sleeper)
  await run((query) => query(RETURN))
  assert.equal(await settle(sleeper, old!, doneWith('result-1')), 'fenced')
  assert.deepEqual(
    (await tasks()).map(({ state }) => state),
    ['ready'],
  )
  await settle(other, (await claim(other))[0]!, doneWith('result-2'))
  assert.equal(await settle(sleeper, old!, doneWith('result-1')), 'fenced')
  assert.deepEqual(
    (await history()).map(({ result }) => result),
    ['result-2'],
  )
})

test('L11: a settlement that is fenced or cannot be stored does not affect the rest of its batch', async (t) => {
  const { enqueue, newPod, claim, settle, run, history, tasks } = await queueOn(t)
  await enqueue(100)
  const pod = await newPod()
  const claims = await claim(pod)
  await run((query) => query(`${RETURN} and id = $1`, [claims[40]!.id]))
  const results = await Promise.allSettled(
    claims.map((one, n) => settle(pod, one, n === 60 ? { type: 'done', result: '"a\\u0000b"' } : DONE)),
  )
  const told = results.map((one) => (one.status === 'fulfilled' ? one.value : 'refused'))
  assert.equal(told[40], 'fenced')
  assert.equal(told[60], 'refused')
  assert.equal(told.filter((one) => one === 'settled').length, 98)
  assert.equal((await history()).length, 98)
  assert.equal((await tasks()).length, 2)
})

/** The task lost a pod in an earlier attempt. The error that the leader wrote then is not about the next attempt. */
async function lostBefore(run: Awaited<ReturnType<typeof queueOn>>['run']): Promise<void> {
  const lost = `update fleetline.tasks set attempt = 1, spent = 1, reason = 'pod_lost',
    error = '{"code": "pod_lost", "pod": 1, "attempt": 1, "attempts": []}'`
  await run((query) => query(lost))
}

test('a settle whose commit was not answered is sent again, and is not fenced by its own first write', async (t) => {
  for (const settlement of KINDS) {
    const { database, enqueue, newPod, claim, run, tasks, history } = await queueOn(t)
    await enqueue(1)
    const pod = await newPod()
    await lostBefore(run)
    const [only] = (await claim(pod)) as [Claim]
    let answers = 0
    const answerLost: Pick<Database, 'transaction'> = {
      transaction: async (work, options) => {
        const outcome = await database.transaction(work, options)
        answers += 1
        return answers === 1 ? { type: 'unknown', error: new Error('the answer was lost') } : outcome
      },
    }
    assert.equal(await partsOn(answerLost).settle(pod, only, settlement), 'settled', settlement.type)
    assert.equal(answers, 2, `${settlement.type}: ${answers} answers`)
    assert.equal((await tasks()).length + (await history()).length, 1)
  }
})

function recording(position: number): Recording {
  return { type: 'record', entry: { name: `n${position}`, position, value: '{"a":1}', ms: 1 } }
}

test('Q3 Q13: a record of an older attempt, or for another position, changes nothing', async (t) => {
  const { sleeper, other, old, current, settle, tasks } = await overtaken(t)
  const before = await tasks()
  assert.equal(await settle(sleeper, old, recording(1)), 'fenced')
  assert.equal(await settle(other, current, recording(2)), 'fenced', 'it skips position 1')
  assert.deepEqual(await tasks(), before)
  assert.equal(await settle(other, current, recording(1)), 'settled')
  assert.equal(await settle(other, current, recording(1)), 'fenced', 'position 1 is recorded already')
  assert.equal(await settle(other, current, recording(2)), 'settled')
})

test('a record updates no index (HOT); a mutant that changes the reason does', async (t) => {
  const { enqueue, newPod, claim, run } = await queueOn(t)
  const updates = `select n_tup_upd::int as n, n_tup_hot_upd::int as hot from pg_stat_xact_user_tables where relname = 'tasks'`
  const pod = await newPod()
  for (const [text, hot] of [
    [RECORD, 1],
    [RECORD.replace('reason = null', `reason = 'mutant'`), 0],
  ] as const) {
    await enqueue(1)
    const [one] = await claim(pod)
    const [before, after] = await run(async (query) => {
      const count = async () => (await query<{ n: number; hot: number }>(updates))[0]!
      const first = await count()
      await query(text, [[pod], [one!.id], [one!.attempt], [1], ['a'], ['1'], [1]])
      return [first, await count()] as const
    })
    assert.equal(after.n - before.n, 1)
    assert.equal(after.hot - before.hot, hot)
  }
})
