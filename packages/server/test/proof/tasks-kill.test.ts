// Q1 Q2 Q5: four pods under load, with the ttl and the beat of production. Every ten seconds one of them is killed. The time from a
// kill until the tasks of the pod run again is a figure; the test does not judge it.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { parseId } from '@fleetline/protocol'
import { eventually } from '../support/eventually.ts'
import { podRows } from '../support/fleet.ts'
import { APP, startPod } from '../support/pods.ts'
import { proofSize } from '../support/proof-size.ts'
import { queueOn } from '../support/tasks.ts'

const [PODS, KILLS, BETWEEN_MS] = [4, proofSize({ full: 6, quick: 3 }), 10_000]
const LOAD = { tasks: 40, runMs: 6_000 }
// Three pods have no room for all tasks, so each of the four runs some. Four pods have room for lost tasks, too.
const REAL = { FLEETLINE_TTL_MS: '5000', FLEETLINE_BEAT_MS: '1000', FLEETLINE_SLOTS: '12' }

type Queue = Awaited<ReturnType<typeof queueOn>>
type Lost = { readonly id: string; readonly attempt: number; readonly spent: number }

test('with a kill -9 every ten seconds every task ends once, and lost tasks run again', async (t) => {
  const queue = await queueOn(t)
  const { enqueue, run, tasks, history } = queue
  let started = 0
  const join = () => newPod(t, queue, `pod-${(started += 1)}`)
  const pods = await Promise.all(Array.from({ length: PODS }, join))
  const enqueued = new Set<string>()
  let isLoading = true
  const loaded = load(async () => {
    const missing = LOAD.tasks - (await tasks()).length
    const made = missing > 0 ? await enqueue(missing, { input: { waitsMs: LOAD.runMs } }) : []
    made.forEach(({ id }) => enqueued.add(parseId('task', id)!.uuid))
    return isLoading
  })
  const recoveries: Promise<number[]>[] = []
  for (let kill = 0; kill < KILLS; kill += 1) {
    await pause(BETWEEN_MS)
    const { id, program } = pods.shift()! // the oldest: it leads
    const [{ at }] = (await run((query) => query<{ at: Date }>('select clock_timestamp() as at'))) as [
      { at: Date },
    ]
    program.kill('SIGKILL')
    await program.ended
    const lost = await run((query) =>
      query<Lost>(`select id, attempt, spent from fleetline.tasks where pod = $1 and state = 'claimed'`, [
        id,
      ]),
    )
    recoveries.push(
      untilRunning(
        queue,
        lost.filter(({ spent }) => spent === 1),
        at,
      ),
    )
    pods.push(await join())
  }
  const seconds = (await Promise.all(recoveries)).flat()
  isLoading = false
  await loaded
  await eventually(async () => assert.deepEqual(await tasks(), []), {
    what: 'all to end',
    patienceMs: 60_000,
  })
  const ends = await history()
  assert.deepEqual(new Set(ends.map(({ outcome }) => outcome)), new Set(['done']))
  assert.equal(ends.length, enqueued.size)
  assert.deepEqual(new Set(ends.map(({ id }) => id)), enqueued)
  assert.ok(seconds.length > 0, `${seconds.length} tasks were lost`)
  for (const s of seconds) t.diagnostic(`figure recovery_s ${s}`)
  t.diagnostic(`figure tasks ${enqueued.size}`)
})

async function newPod(t: TestContext, { url, database }: Queue, name: string) {
  const pod = await startPod(t, url, { ...REAL, FLEETLINE_POD_NAME: name }, APP)
  const row = (await podRows(database)).find((one) => one.name === name)!
  return { ...pod, id: row.pod }
}

async function load(more: () => Promise<boolean>): Promise<void> {
  while (await more()) await pause(100)
}

/** From the kill to the claim by another pod, in seconds by the clock of the database. */
async function untilRunning({ run }: Queue, lost: readonly Lost[], killedAt: Date): Promise<number[]> {
  const again = `
    select l.id, (extract(epoch from x.claimed_at - $3::timestamptz))::float8 as s
      from unnest($1::uuid[], $2::int[]) l(id, attempt)
      join (select id, attempt, claimed_at from fleetline.tasks where state = 'claimed'
            union all select id, attempt, claimed_at from fleetline.task_history) x
        on x.id = l.id and x.attempt = l.attempt + 1`
  const found = new Map<string, number>()
  await eventually(
    async () => {
      const values = [lost.map(({ id }) => id), lost.map(({ attempt }) => attempt), killedAt]
      const rows = await run((query) => query<{ id: string; s: number }>(again, values))
      rows.forEach(({ id, s }) => found.set(id, s))
      assert.equal(found.size, lost.length)
    },
    { what: `${lost.length} tasks to run again` },
  )
  return [...found.values()]
}
