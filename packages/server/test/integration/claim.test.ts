// What a claim takes and what it reads, on real PostgreSQL.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { drain, leave } from '../../src/fleet/pods.ts'
import { claim } from '../../src/task/claim.ts'
import { promote } from '../../src/task/due.ts'
import { register } from '../../src/task/tracks.ts'
import { explaining, type Plan } from '../support/plan.ts'
import { queueOn, TENANT } from '../support/tasks.ts'
import { asksFor } from '../support/throttle.ts'

test('a claim takes at most as many tasks as it may, from its own tracks only, by priority and then by place', async (t) => {
  const { database, enqueuer, enqueue, newPod, claim, run } = await queueOn(t)
  await register(database, [
    { queue: 'default', name: 'other', shape: '', transitions: ['run'], maxAttempts: 5 },
  ])
  await enqueue(3, { priority: 1 })
  await enqueue(2, { priority: 7 })
  await enqueue(2)
  await enqueuer.enqueue(TENANT, { machine: 'other', priority: 7 })
  const pod = await newPod()
  const taken = async (most: number) =>
    (await claim(pod, most)).map(({ priority, input, attempt, spent }) => ({
      priority,
      input,
      attempt,
      spent,
    }))
  assert.deepEqual(await taken(3), [
    { priority: 7, input: 0, attempt: 1, spent: 1 },
    { priority: 7, input: 1, attempt: 1, spent: 1 },
    { priority: 3, input: 0, attempt: 1, spent: 1 },
  ])
  assert.deepEqual(await taken(10), [
    { priority: 3, input: 1, attempt: 1, spent: 1 },
    { priority: 1, input: 0, attempt: 1, spent: 1 },
    { priority: 1, input: 1, attempt: 1, spent: 1 },
    { priority: 1, input: 2, attempt: 1, spent: 1 },
  ])
  assert.deepEqual(await taken(10), [])
  const left = await run((query) =>
    query<{ state: string }>(`select state from fleetline.tasks where pod is null`),
  )
  assert.deepEqual(left, [{ state: 'ready' }])
})

test('Q2: pods that claim at the same time get different tasks', async (t) => {
  const { enqueue, newPod, claim } = await queueOn(t)
  await enqueue(200)
  const pods = await Promise.all(Array.from({ length: 4 }, newPod))
  const taken: string[] = []
  const drainAll = async (pod: number) => {
    for (;;) {
      const claims = await claim(pod, 7)
      if (claims.length === 0) return
      taken.push(...claims.map(({ id }) => id))
    }
  }
  await Promise.all(pods.map(drainAll))
  await drainAll(pods[0]!) // once more: a claim that found only locked rows took nothing
  assert.equal(taken.length, 200)
  assert.equal(new Set(taken).size, 200)
})

test('a pod that drains, is dead or does not exist claims nothing', async (t) => {
  const { enqueue, newPod, claim, run } = await queueOn(t)
  await enqueue(1)
  const [draining, dead] = [await newPod(), await newPod()]
  await run((query) => drain(query, draining))
  await run((query) => leave(query, dead))
  for (const pod of [draining, dead, 12345]) assert.deepEqual(await claim(pod), [], String(pod))
  assert.equal((await claim(await newPod())).length, 1)
})

test('Q9: a task that is due later is claimed when its time has come, by the clock of the database', async (t) => {
  const { enqueuer, newPod, claim, run } = await queueOn(t)
  const pod = await newPod()
  const anHour = new Date(Date.now() + 3_600_000)
  await enqueuer.enqueue(TENANT, { machine: 'work', runAt: anHour })
  await enqueuer.enqueue(TENANT, { machine: 'work', input: 'now' })
  assert.equal((await run(promote)).count, 0)
  assert.deepEqual(
    (await claim(pod)).map(({ input }) => input),
    ['now'],
  )
  await run((query) => query(`update fleetline.tasks set run_at = now() where state = 'waiting'`))
  assert.deepEqual(await run(promote), { count: 1, isAll: true })
  assert.equal((await claim(pod)).length, 1)
})

test('plans: beside 100,000 tasks that wait, are held or are dead, a claim reads only the ready ones', async (t) => {
  const { tracks, run, newPod } = await queueOn(t)
  const pod = await newPod()
  await run(async (query) => {
    await query(
      `insert into fleetline.tasks (id, track, tenant, state, max_attempts, input, run_at)
       select gen_random_uuid(), $1, 1, (array['waiting', 'held', 'dead'])[1 + n % 3]::fleetline.task_state, 5, '{}',
              now() + interval '1 day' from generate_series(1, 100000) n`,
      [tracks[0]],
    )
    await query(
      `insert into fleetline.tasks (id, track, tenant, state, max_attempts, input)
       select gen_random_uuid(), $1, 1, 'ready', 5, '{}' from generate_series(1, 200)`,
      [tracks[0]],
    )
  })
  const plans = await run(async (query) => {
    const explained = explaining(query)
    await claim(explained.query, { pod, asks: asksFor(tracks, 100), most: 100, suspects: 1, turn: 0 })
    return explained.plans
  })
  const [{ text, buffers }] = plans as [Plan]
  assert.match(text, /"Index Name":"tasks_ready"/)
  assert.match(text, /"Node Type":"Tid Scan"/)
  assert.doesNotMatch(text, /Seq Scan","[^}]*"Relation Name":"tasks"|tasks_due|tasks_pkey|"Sort"/)
  assert.ok(buffers < 1_500, `${buffers} pages; a task needs about ten, for its row and its indexes`)
})

/** A queue with two more tracks, `a` and `b`. */
async function groupOn(t: TestContext) {
  const queue = await queueOn(t)
  const named = (name: string) => ({
    queue: 'default',
    name,
    shape: '',
    transitions: ['run'],
    maxAttempts: 5,
  })
  const [a, b] = await register(queue.database, [named('a'), named('b')])
  return { ...queue, a: a!, b: b!, pod: await queue.newPod() }
}

test('from tracks that share a downstream, a claim takes as many tasks as have room, the highest priority first', async (t) => {
  const { enqueuer, tracks, a, b, pod, run } = await groupOn(t)
  const add = async (machine: string, priority: number, count: number) => {
    for (let n = 0; n < count; n += 1) await enqueuer.enqueue(TENANT, { machine, priority, input: machine })
  }
  await add('a', 1, 3)
  await add('a', 5, 3)
  await add('b', 7, 1)
  await add('b', 3, 3)
  await add('work', 2, 2)
  const asks = [
    { track: tracks[0]!, group: 0, room: 20 },
    { track: a, group: 1, room: 3 },
    { track: b, group: 1, room: 3 },
  ]
  const taken = async (most: number) =>
    (await run((query) => claim(query, { pod, asks, most, suspects: 1, turn: 0.9 }))).map(
      ({ input, priority }) => ({ machine: input, priority }),
    )
  assert.deepEqual(await taken(20), [
    { machine: 'b', priority: 7 },
    { machine: 'a', priority: 5 },
    { machine: 'a', priority: 5 },
    { machine: 'work', priority: 2 },
    { machine: 'work', priority: 2 },
  ])
  assert.deepEqual(await taken(20), [
    { machine: 'a', priority: 5 },
    { machine: 'b', priority: 3 },
    { machine: 'b', priority: 3 },
  ])
  const left = await run((query) =>
    query(`select attempt, count(*)::int from fleetline.tasks where state = 'ready' group by 1`),
  )
  assert.deepEqual(left, [{ attempt: 0, count: 4 }], 'tasks that were read and not taken are unchanged')
})

test('tasks beyond the room of their group do not use up a claim: it reads on in the other tracks', async (t) => {
  const { enqueuer, tracks, a, b, pod, run } = await groupOn(t)
  for (const machine of ['a', 'b', 'a', 'b'])
    await enqueuer.enqueue(TENANT, { machine, priority: 7, input: machine })
  for (const input of [1, 2, 3, 4]) await enqueuer.enqueue(TENANT, { machine: 'work', input })
  await run((query) =>
    query(`update fleetline.tasks set state = 'waiting', reason = 'suspect' where input in ('3', '4')`),
  )
  const asks = [
    { track: tracks[0]!, group: 0, room: 3 },
    { track: a, group: 1, room: 1 },
    { track: b, group: 1, room: 1 },
  ]
  const claims = await run((query) => claim(query, { pod, asks, most: 3, suspects: 1, turn: 0.5 }))
  assert.deepEqual(
    claims.map(({ input }) => (typeof input === 'number' ? input : 'one of the group')),
    ['one of the group', 3, 1],
    'one of the group, one suspect (3) as allowed, and one ready task',
  )
})
