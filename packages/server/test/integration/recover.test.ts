// The leader returns the claims of a dead pod and changes nothing else. Tested on real PostgreSQL.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import pg from 'pg'
import * as pods from '../../src/fleet/pods.ts'
import type { Query } from '../../src/store/database.ts'
import { promote } from '../../src/task/due.ts'
import type { Term } from '../../src/store/leader.ts'
import { recover } from '../../src/task/recover.ts'
import { atEnd } from '../support/cleanup.ts'
import { eventually } from '../support/eventually.ts'
import { explaining, type Plan } from '../support/plan.ts'
import { DONE, queueOn } from '../support/tasks.ts'

const error = JSON.stringify({ code: 'failed', message: 'no luck' })
const HOUR_MS = 3_600_000
const FORGOTTEN = 'delete from fleetline.pods where id = $1'
const ROWS = 'select t.*, t.ctid::text from fleetline.tasks t order by id'
const ENDS = 'select h.* from fleetline.task_history h order by id'

/** A queue with a leader. `end` marks a pod as dead, as a pod that stops does itself. */
async function led(t: TestContext) {
  const queue = await queueOn(t)
  const { run, newPod } = queue
  const leader = await newPod()
  const term = (await run((query) => pods.take(query, leader, 0)))!
  return {
    ...queue,
    leader,
    term,
    end: (pod: number) => run((query) => pods.leave(query, pod)),
    sweep: (as: Term = term) => run((query) => recover(query, as)),
    whole: () => run(async (query) => ({ rows: await query(ROWS), ends: await query(ENDS) })),
  }
}

test('recovery changes claimed rows only', async (t) => {
  const { run, enqueue, newPod, claim, settle, leader, end, sweep, whole, tasks } = await led(t)
  await enqueue(300)
  const pod = await newPod()
  const claims = await claim(pod, 300)
  const blocked = new Set(claims.splice(200).map(({ id }) => id))
  await Promise.all(
    claims.map((one, n) => {
      if (n < 100) return settle(pod, one, DONE)
      if (n < 125) return settle(pod, one, { type: 'retry', delayMs: HOUR_MS, error })
      if (n < 150) return settle(pod, one, { type: 'later', delayMs: HOUR_MS, error })
      if (n < 175) return settle(pod, one, { type: 'dead', error })
      return settle(pod, one, { type: 'failed', error })
    }),
  )
  const held = `update fleetline.tasks set state = 'held' where state = 'waiting' and reason = 'later'`
  await run((query) => query(held))
  const others = async () => {
    const { rows, ends } = await whole()
    return { rows: rows.filter((row) => !blocked.has((row as { id: string }).id)), ends }
  }
  const before = await others()
  assert.equal(before.rows.length, 75)
  assert.equal(before.ends.length, 125)

  await end(pod)
  assert.deepEqual(new Set((await sweep()).map(({ id }) => id)), blocked)
  assert.deepEqual([await sweep(), await sweep()], [[], []])
  assert.deepEqual(await others(), before)
  const ready = (await tasks()).filter(({ state }) => state === 'ready')
  assert.deepEqual(
    new Set(ready.map(({ reason, attempt, spent }) => `${reason} ${attempt} ${spent}`)),
    new Set(['pod_lost 1 1']),
  )
  const again = await claim(leader, 300)
  assert.deepEqual(new Set(again.map(({ id }) => id)), blocked)
  for (const { attempt, spent } of again) assert.deepEqual({ attempt, spent }, { attempt: 2, spent: 2 })
})

/** A settle of the dead pod commits while the sweep runs. Returns the state of the task afterwards. */
async function sweptWhileSettled(
  t: TestContext,
  mutate: (text: string) => string,
): Promise<string | undefined> {
  const { url, database, run, enqueue, newPod, claim, term, end, tasks } = await led(t)
  await enqueue(1)
  const pod = await newPod()
  await claim(pod)
  await end(pod)
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  atEnd(t, () => client.end())
  await client.query('begin')
  await client.query(`update fleetline.tasks set state = 'dead', pod = null, reason = 'failed'`)
  const swept = database.transaction((query) => {
    const mutated: Query = (text, values) => query(mutate(text), values)
    return recover(mutated, term)
  })
  let isOver = false
  const over = swept.then(() => (isOver = true))
  const waits = `select count(*)::int as n from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%pod_lost%'`
  const isWaiting = () => run(async (query) => (await query<{ n: number }>(waits))[0]!.n > 0)
  await eventually(async () => assert.ok(isOver || (await isWaiting())), {
    what: 'the sweep to pass, or to wait',
  })
  await client.query('commit')
  await over
  assert.equal((await swept).type, 'committed')
  return (await tasks())[0]?.state
}

test('Q4: a settle that commits while the leader sweeps is kept; mutant, a sweep by id alone', async (t) => {
  assert.equal(await sweptWhileSettled(t, (text) => text), 'dead')
  const byId = (text: string) =>
    text
      .replace('select ctid as tid', 'select id as tid')
      .replace('limit $3 for update skip locked', 'limit $3')
      .replace('where t.ctid = any', 'where t.id = any')
      .replace(/and t\.state = 'claimed' and t\.pod = any \(array\(select pod from gone\)\)/, '')
  assert.equal(await sweptWhileSettled(t, byId), 'ready', 'mutant: a dead task runs again')
})

test('Q5: claims of dead and deleted pods are returned, those of live and draining pods are not', async (t) => {
  const { run, enqueue, newPod, claim, end, sweep, tasks } = await led(t)
  await enqueue(5)
  const [left, forgotten, lives, drains, alsoLives] = [
    await newPod(),
    await newPod(),
    await newPod(),
    await newPod(),
    await newPod(),
  ] as const
  for (const pod of [left, forgotten, lives, drains, alsoLives]) await claim(pod, 1)
  await end(left)
  await run((query) => query(FORGOTTEN, [forgotten]))
  await run((query) => pods.drain(query, drains))
  assert.equal((await sweep()).length, 2)
  assert.deepEqual(
    (await tasks()).map(({ state, pod }) => ({ state, pod })),
    [
      { state: 'ready', pod: null },
      { state: 'ready', pod: null },
      { state: 'claimed', pod: lives },
      { state: 'claimed', pod: drains },
      { state: 'claimed', pod: alsoLives },
    ],
  )
})

test('P1 P2: sweeps at the same time return each claim once; an old term returns nothing', async (t) => {
  const { run, enqueue, newPod, claim, term, end, sweep } = await led(t)
  await enqueue(200)
  const pod = await newPod()
  await claim(pod, 200)
  await end(pod)
  const heir = await newPod()
  const next = (await run((query) => pods.take(query, heir, term.term)))!
  assert.deepEqual(await sweep(term), [], 'the old term')
  assert.deepEqual(await sweep({ ...next, pod: term.pod }), [], 'the new term, but the old leader')
  const returned = (await Promise.all([sweep(next), sweep(next), sweep(next)])).flat()
  assert.equal(returned.length, 200)
  assert.equal(new Set(returned.map(({ id }) => id)).size, 200)
})

test('Q6: a task that loses pod after pod is ready at once, then a suspect for longer and longer, then dead', async (t) => {
  const { run, enqueue, newPod, claim, end, term, tasks } = await led(t)
  await enqueue(1, { maxAttempts: 4 })
  const seen = []
  for (let n = 1; n <= 4; n += 1) {
    const pod = await newPod()
    assert.equal((await claim(pod)).length, 1)
    await end(pod)
    const [{ s }] = await run(async (query) => {
      await recover(query, term)
      const later = `select (extract(epoch from run_at - now()))::float8 as s from fleetline.tasks`
      return (await query<{ s: number }>(later)) as [{ s: number }]
    })
    const [row] = await tasks()
    seen.push({ state: row!.state, reason: row!.reason, spent: row!.spent, code: row!.error!.code })
    if (row!.state === 'waiting') assert.ok(s >= 2 ** (n - 2) && s <= 2 ** (n - 1), `${n}: in ${s} s`)
    if (row!.state !== 'waiting') continue
    const early = await newPod()
    assert.equal((await run(promote)).count, 0, 'not promoted before its time')
    assert.deepEqual(await claim(early), [], 'not claimed before its time')
    await run((query) => query('update fleetline.tasks set run_at = now()'))
    assert.equal((await run(promote)).count, 0, 'a suspect is never ready')
  }
  assert.deepEqual(seen, [
    { state: 'ready', reason: 'pod_lost', spent: 1, code: 'pod_lost' },
    { state: 'waiting', reason: 'suspect', spent: 2, code: 'pod_lost' },
    { state: 'waiting', reason: 'suspect', spent: 3, code: 'pod_lost' },
    { state: 'dead', reason: 'pod_lost', spent: 4, code: 'pod_lost' },
  ])
  assert.equal((await tasks())[0]!.error!.attempts.length, 4)
})

test('Q6: a task that failed by itself before its pod was lost is no suspect; a suspect handed back stays one', async (t) => {
  const { run, enqueue, newPod, claim, settle, end, sweep, tasks } = await led(t)
  await enqueue(1)
  const claimed = async () => {
    const pod = await newPod()
    const [one] = await claim(pod)
    return { pod, one: one! }
  }
  const failing = await claimed()
  await settle(failing.pod, failing.one, { type: 'retry', delayMs: 0, error })
  await run(promote)
  const states = []
  for (let n = 0; n < 2; n += 1) {
    await end((await claimed()).pod)
    await sweep()
    await run((query) => query('update fleetline.tasks set run_at = now()'))
    states.push((await tasks()).map(({ state, reason, spent }) => `${state} ${reason} ${spent}`)[0])
  }
  const back = await claimed()
  assert.equal(await settle(back.pod, back.one, { type: 'back' }), 'settled')
  states.push((await tasks()).map(({ state, reason, spent }) => `${state} ${reason} ${spent}`)[0])
  assert.deepEqual(states, ['ready pod_lost 2', 'waiting suspect 3', 'waiting suspect 3'])
})

test('plans: beside 20,000 claims of live pods and 50,000 waiting tasks, a sweep reads only claims of dead pods', async (t) => {
  const { run, newPod, end, term, tracks } = await led(t)
  const living = await Promise.all(Array.from({ length: 20 }, newPod))
  const dead = await newPod()
  await end(dead)
  const add = `insert into fleetline.tasks (id, track, tenant, state, pod, spent, max_attempts, input, run_at)
    select gen_random_uuid(), $1, 1, $2, p, 1, 5, '{}', now() + interval '1 day'
      from unnest($3::int[]) p, generate_series(1, $4)`
  await run(async (query) => {
    await query(add, [tracks[0], 'waiting', [null], 50_000])
    await query(add, [tracks[0], 'claimed', living, 1_000])
    await query(add, [tracks[0], 'claimed', [dead], 100])
    await query('analyze fleetline.tasks')
  })
  const plans = await run(async (query) => {
    const explained = explaining(query)
    await recover(explained.query, term)
    return explained.plans
  })
  const [{ text, buffers }] = plans as [Plan]
  assert.doesNotMatch(text, /Seq Scan","[^}]*"Relation Name":"tasks"|tasks_due|tasks_pkey/)
  assert.ok(buffers < 2_000, `${buffers} pages: about ten a task are enough for its row and indexes`)
})
