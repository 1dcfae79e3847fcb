// Pods that are killed, sleep, or run what kills them. Beats are made old by hand: no test waits for a ttl.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { podRows, untilBuried } from '../support/fleet.ts'
import { APP, startPod } from '../support/pods.ts'
import { queueOn } from '../support/tasks.ts'

const [FULL, ALL] = [20, 300]
const SLOTS = { FLEETLINE_SLOTS: String(FULL) }

/** A queue, and a file for which tasks wait. */
async function gated(t: TestContext) {
  const queue = await queueOn(t)
  const folder = mkdtempSync(join(tmpdir(), 'fleetline-rescue-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const until = join(folder, 'open')
  const claimed = async () => (await queue.tasks()).filter(({ state }) => state === 'claimed')
  return {
    ...queue,
    until,
    open: () => writeFileSync(until, ''),
    untilClaimed: (count: number, details: () => string) =>
      eventually(
        async () => {
          const rows = await claimed()
          assert.equal(rows.length, count)
          return rows
        },
        { what: `${count} claims`, details },
      ),
    /** A pod, and its number. */
    podNamed: async (name: string, hasApp = true) => {
      const pod = await startPod(
        t,
        queue.url,
        { ...SLOTS, FLEETLINE_POD_NAME: name },
        hasApp ? APP : undefined,
      )
      const rows = (await podRows(queue.database)).filter((row) => row.name === name && row.state === 'live')
      assert.equal(rows.length, 1)
      return { ...pod, id: rows[0]!.pod, details: pod.program.output }
    },
  }
}

test('Q1 Q5: of two pods one is killed with its hands full; every task ends, once', async (t) => {
  const { database, enqueue, until, open, untilClaimed, podNamed, tasks, history } = await gated(t)
  await enqueue(2 * FULL, { input: { until }, priority: 5 })
  await enqueue(ALL - 2 * FULL)
  const killed = await podNamed('killed')
  await untilClaimed(FULL, killed.details)
  const other = await podNamed('other')
  await untilClaimed(2 * FULL, other.details)
  killed.program.kill('SIGKILL')
  await untilBuried(database, killed.id, other.details)
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

test('Q3: a pod sleeps, its task is redone elsewhere, it wakes: it changes nothing, and says so', async (t) => {
  const { database, enqueue, until, open, untilClaimed, podNamed, tasks, history } = await gated(t)
  await enqueue(1, { input: { until } })
  const sleeper = await podNamed('sleeper')
  await untilClaimed(1, sleeper.details)
  const other = await podNamed('other')
  sleeper.program.kill('SIGSTOP')
  await untilBuried(database, sleeper.id, other.details)
  await eventually(
    async () => {
      const [row] = await untilClaimed(1, other.details)
      assert.deepEqual([row!.pod, row!.attempt], [other.id, 2])
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
    (await history()).map(({ pod, attempt, outcome, result }) => [pod, attempt, outcome, result]),
    [[other.id, 2, 'done', 'free']],
  )
  assert.deepEqual(await tasks(), [])
})

test('Q6: a task that kills its pods is dead after its attempts; those beside it lose two', async (t) => {
  const { database, run, enqueue, until, open, untilClaimed, podNamed, tasks, history } = await gated(t)
  const leader = await podNamed('leader', false)
  await enqueue(1, { input: { kills: true }, priority: 5, maxAttempts: 3 })
  await enqueue(5, { input: { until } })
  const hold = `update fleetline.tasks set state = 'waiting', run_at = now() + interval '1 hour' where state <> 'dead'`
  const release = (which: string) =>
    run((query) =>
      query(
        `update fleetline.tasks set run_at = now() - priority * interval '1 s' where state = 'waiting' and ${which}`,
      ),
    )
  for (let n = 1; n <= 3; n += 1) {
    await run((query) => query(hold))
    const { id, program, details } = await podNamed(`victim-${n}`)
    if (n < 3) {
      await release('priority < 5')
      await untilClaimed(5, details)
    }
    await release('true') // at the third, all of them are suspects, and the killer is the first
    await eventually(() => assert.ok(program.hasEnded()), { what: 'it to be killed', details })
    assert.deepEqual(await program.ended, { code: null, signal: 'SIGKILL' })
    await untilBuried(database, id, leader.details)
    await eventually(async () => assert.ok((await tasks()).every(({ state }) => state !== 'claimed')), {
      what: 'its claims to be returned',
      details: leader.details,
    })
  }
  const rows = await tasks()
  const dead = rows.filter(({ state }) => state === 'dead')
  assert.deepEqual(
    dead.map(({ input, spent, error }) => [input, spent, error!.code, error!.attempts.length]),
    [[{ kills: true }, 3, 'pod_lost', 3]],
  )
  assert.deepEqual(
    rows.filter(({ state }) => state !== 'dead').map(({ spent }) => spent),
    [2, 2, 2, 2, 2],
  )
  open()
  const { details } = await podNamed('survivor')
  await eventually(
    async () => {
      await release('true')
      assert.equal((await history()).length, 5)
    },
    { what: 'the others to end', details },
  )
})
