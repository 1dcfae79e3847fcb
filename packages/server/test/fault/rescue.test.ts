// Pods that are killed or paused. Beats are made old by hand, so no test waits for a ttl. proof/killer.test.ts has a task that kills
// its pods.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { bury } from '../support/fleet.ts'
import { FULL, gated } from '../support/gated.ts'

const ALL = 300

test('Q1 Q5: if one of two full pods is killed, every task ends once', async (t) => {
  const { database, enqueue, until, open, untilClaimed, podNamed, tasks, history } = await gated(t)
  await enqueue(2 * FULL, { input: { until }, priority: 5 })
  await enqueue(ALL - 2 * FULL)
  const killed = await podNamed('killed')
  await untilClaimed(FULL, killed.details)
  const other = await podNamed('other')
  await untilClaimed(2 * FULL, other.details)
  killed.program.kill('SIGKILL')
  await bury(database, killed.id)
  open()
  const what = { what: 'all to end', details: other.details }
  await eventually(async () => assert.equal((await history()).length, ALL), what)
  const ends = await history()
  assert.equal(new Set(ends.map(({ id }) => id)).size, ALL)
  assert.deepEqual(await tasks(), [])
  const again = ends.filter(({ attempt }) => attempt > 1)
  assert.deepEqual(
    new Set(again.map(({ pod, attempt, spent, error }) => `${pod} ${attempt} ${spent} ${error?.code}`)),
    new Set([`${other.id} 2 2 pod_lost`]),
  )
  assert.equal(again.length, FULL)
})

test('Q3: a pod that wakes after another has taken over its task changes nothing, and counts a fenced write', async (t) => {
  const { database, enqueue, until, open, untilClaimed, podNamed, tasks, history } = await gated(t)
  await enqueue(1, { input: { until } })
  const sleeper = await podNamed('sleeper')
  await untilClaimed(1, sleeper.details)
  const other = await podNamed('other')
  sleeper.program.kill('SIGSTOP')
  await bury(database, sleeper.id)
  await eventually(
    async () => {
      const [row] = await untilClaimed(1, other.details)
      assert.equal(row!.pod, other.id)
      assert.equal(row!.attempt, 2)
    },
    { what: 'the second attempt', details: other.details },
  )
  const before = await tasks()
  sleeper.program.kill('SIGCONT')
  const fenced = /^fleetline_tasks_settled_total\{machine="work",outcome="fenced"\} 1$/m
  await eventually(async () => assert.match(await (await fetch(`${sleeper.admin}/metrics`)).text(), fenced), {
    what: 'the sleeper to be fenced',
    details: sleeper.details,
  })
  assert.deepEqual(await tasks(), before)
  open()
  await eventually(async () => assert.equal((await history()).length, 1), {
    what: 'the end',
    details: other.details,
  })
  assert.deepEqual(
    (await history()).map(({ pod, attempt, outcome, result }) => ({ pod, attempt, outcome, result })),
    [{ pod: other.id, attempt: 2, outcome: 'done', result: 'free' }],
  )
  assert.deepEqual(await tasks(), [])
})
