// What the leader does with tasks whose shape no pod runs, tested on rows. shapes.test.ts shows it on pods.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import pg from 'pg'
import { join, take } from '../../src/fleet/pods.ts'
import { createOrphans, MOVE, RELEASE, TRACKS } from '../../src/machine/orphans.ts'
import type { Term } from '../../src/store/leader.ts'
import { valueOf, type Database } from '../../src/store/database.ts'
import { register } from '../../src/task/tracks.ts'
import { atEnd } from '../support/cleanup.ts'
import { manualClock } from '../support/clock.ts'
import { explaining } from '../support/plan.ts'
import { queueOn } from '../support/tasks.ts'

type Added = {
  readonly track: number
  readonly count?: number
  readonly position?: number
  readonly spent?: number
  readonly state?: string
  readonly reason?: string
  /** How often its pod was lost. */
  readonly losses?: number
  /** How often it was claimed since. */
  readonly claims?: number
}
type Row = {
  readonly track: number
  readonly state: string
  readonly reason: string | null
  readonly n: number
}

const ADD = `
  insert into fleetline.tasks (id, track, tenant, state, reason, position, attempt, spent, max_attempts, input, error, run_at)
  select gen_random_uuid(), $1, 1, $2::fleetline.task_state, $3, $4, $5::int + $7::int, $5, 5, '{}', $6,
         now() + case when $2 = 'waiting' then interval '1 hour' else interval '0' end
    from generate_series(1, $8)`
const STAND = `
  select track, state::text, reason, position, spent, count(*)::int as n from fleetline.tasks
   group by 1, 2, 3, 4, 5 order by 1, 4, 2, 3, 5`

/** A leader, and a machine `m` in any shape. `runs` adds a pod that runs one of them. */
async function shapesOn(t: TestContext) {
  const { url, database, run, newPod } = await queueOn(t)
  const clock = manualClock()
  let mutate = (text: string) => text
  const mutated: Pick<Database, 'transaction'> = {
    transaction: (work) =>
      database.transaction((query) => work((text, values) => query(mutate(text), values))),
  }
  const settle = createOrphans({ database: mutated, clock })
  const step = async (as: Term) => {
    const { released, continued, held, isAll } = valueOf(await settle(as), 'no step')
    return { released, continued, held, isAll }
  }
  const leader = await newPod()
  const term: Term = (await run((query) => take(query, leader, 0)))!
  const shaped = async (shape: string, transitions: readonly string[]) => {
    const one = { queue: 'default', name: 'm', shape, transitions, maxAttempts: 5 }
    return (await register(database, [one]))[0]!
  }
  return {
    url,
    database,
    run,
    newPod,
    clock,
    term,
    shaped,
    runs: (track: number) => run((query) => join(query, { name: 'test', version: '0', tracks: [track] })),
    add: async ({
      track,
      count = 1,
      position = 0,
      spent = 0,
      state = 'ready',
      reason,
      losses = 0,
      claims = 0,
    }: Added) => {
      const lost = { code: 'pod_lost', attempt: spent }
      const error =
        losses > 0 ? JSON.stringify({ ...lost, attempts: Array.from({ length: losses }, () => lost) }) : null
      await run((query) => query(ADD, [track, state, reason, position, spent, error, claims, count]))
    },
    stand: () => run((query) => query<Row & { position: number; spent: number }>(STAND)),
    step: (as: Term = term) => step(as),
    mutate: (how: typeof mutate) => void (mutate = how),
    /** Takes steps until nothing is left to do. Returns how many it took. */
    whole: async (as: Term = term) => {
      for (let steps = 1; steps < 100; steps += 1) if ((await step(as)).isAll) return steps
      return assert.fail('it does not end')
    },
  }
}

test('a task that fits a running shape continues there, with its attempts if its next transition is the same; one that does not is held until its own shape is run', async (t) => {
  const { shaped, runs, add, stand, whole } = await shapesOn(t)
  const [old, next] = [await shaped('old', ['a', 'b', 'c']), await shaped('new', ['a', 'x', 'b', 'c'])]
  await runs(next)
  for (const [position, spent] of [
    [0, 2], // a comes next in both shapes: its attempts stay counted
    [1, 3], // x comes next in the new shape: it has no attempts yet
    [2, 4], // does not fit: in the new shape x comes before b
  ] as const)
    await add({ track: old, position, spent })
  await add({ track: old, position: 1, spent: 4, state: 'waiting', reason: 'suspect', losses: 2 })
  await add({ track: old, position: 2, spent: 3, state: 'waiting', reason: 'suspect', losses: 2 })
  await add({ track: old, position: 2, spent: 2, reason: 'pod_lost', losses: 1 })
  await add({ track: old, position: 1, spent: 1, state: 'waiting', reason: 'retry' })
  await add({ track: old, position: 1, spent: 5, state: 'dead', reason: 'failed' })
  await whole()
  const told = async () =>
    (await stand()).map(
      (row) => `${row.track === old ? 'old' : 'new'} ${row.position} ${row.state} ${row.reason} ${row.spent}`,
    )
  assert.deepEqual(await told(), [
    'old 1 dead failed 5',
    'old 1 waiting retry 1',
    'old 2 held shape 2',
    'old 2 held shape 3',
    'old 2 held shape 4',
    'new 0 ready null 2',
    'new 1 ready null 0',
    'new 1 waiting suspect 0',
  ])
  await runs(old)
  await whole()
  assert.deepEqual(
    (await told()).filter((line) => line.startsWith('old 2')),
    ['old 2 ready pod_lost 2', 'old 2 ready null 4', 'old 2 waiting suspect 3'],
    'losses are not forgotten',
  )
})

test('a held task is released as it was: a suspect waits for its time again, and no other becomes a suspect', async (t) => {
  const { shaped, runs, add, stand, whole, run } = await shapesOn(t)
  const [old, next] = [await shaped('old', ['a', 'b']), await shaped('new', ['a', 'x'])]
  await runs(next)
  await add({ track: old, position: 1, spent: 2, state: 'waiting', reason: 'suspect', losses: 2, claims: 1 }) // handed back
  await add({ track: old, position: 1, spent: 3, reason: 'pod_lost', losses: 2 }) // a transition recorded between the losses
  await add({ track: old, position: 1, spent: 4, losses: 2 }) // an operator let it continue
  await whole()
  assert.deepEqual(
    (await stand()).map(({ state, reason }) => `${state} ${reason}`),
    ['held shape', 'held shape', 'held shape'],
  )
  await runs(old)
  await whole()
  const rows = await run((query) =>
    query(
      `select state, reason, run_at > now() as later, error ? 'was' as noted from fleetline.tasks order by spent`,
    ),
  )
  assert.deepEqual(rows, [
    { state: 'waiting', reason: 'suspect', later: true, noted: false },
    { state: 'ready', reason: 'pod_lost', later: false, noted: false },
    { state: 'ready', reason: null, later: false, noted: false },
  ])
})

test('if a pod is gone for a short time only, the tasks held meanwhile are released at once', async (t) => {
  const { shaped, runs, add, stand, whole, run } = await shapesOn(t)
  const [old, next] = [await shaped('old', ['a', 'b']), await shaped('new', ['a', 'x'])]
  await runs(next)
  const pod = await runs(old)
  await add({ track: old, position: 1, state: 'held', reason: 'shape' })
  await whole()
  await run((query) => query(`update fleetline.pods set state = 'dead' where id = $1`, [pod]))
  await whole()
  assert.deepEqual(
    (await stand()).map(({ state }) => state),
    ['held'],
  )
  await runs(old)
  await whole()
  assert.deepEqual(
    (await stand()).map(({ state }) => state),
    ['ready'],
  )
})

test('a task with one handler does not continue in a machine that has a transition of the same name', async (t) => {
  const { shaped, runs, add, stand, whole } = await shapesOn(t)
  const [plain, machine] = [await shaped('', ['run']), await shaped('one', ['run'])]
  await runs(machine)
  await add({ track: plain })
  await whole()
  assert.deepEqual(
    (await stand()).map(({ track, state, reason }) => ({ track, state, reason })),
    [{ track: plain, state: 'held', reason: 'shape' }],
  )
})

test('thousands of tasks are held some hundreds a step, and all are released when a shape comes that they fit', async (t) => {
  const { shaped, runs, add, stand, whole, step } = await shapesOn(t)
  const [old, next, late] = [
    await shaped('old', ['a', 'b']),
    await shaped('new', ['a', 'x']),
    await shaped('late', ['a', 'b', 'x']),
  ]
  const count = async () => (await stand()).map(({ track, state, n }) => ({ track, state, n }))
  await runs(next)
  await add({ track: old, position: 1, count: 1_300 })
  await add({ track: old, position: 2, count: 1_300 })
  const first = await step()
  assert.equal(first.held, 500)
  assert.equal(first.isAll, false)
  const toHold = await whole()
  assert.ok(toHold < 10, `${toHold} steps`)
  assert.deepEqual(await count(), [
    { track: old, state: 'held', n: 1_300 },
    { track: old, state: 'held', n: 1_300 },
  ])
  await whole()
  assert.equal(await whole(), 1, 'they are not looked at again while the same shapes are run')
  await runs(late)
  const toRelease = await whole()
  assert.ok(toRelease < 10, `${toRelease} steps`)
  assert.deepEqual(await count(), [
    { track: late, state: 'ready', n: 1_300 },
    { track: late, state: 'ready', n: 1_300 },
  ])
})

test('a few tasks do not wait for the many of another machine', async (t) => {
  const { database, shaped, runs, add, stand, step } = await shapesOn(t)
  const other = { queue: 'default', name: 'other', maxAttempts: 5 }
  const [few, heir] = (await register(database, [
    { ...other, shape: 'old', transitions: ['a'] },
    { ...other, shape: 'new', transitions: ['a', 'b'] },
  ])) as [number, number]
  const [many, next] = [await shaped('old', ['a', 'b']), await shaped('new', ['a', 'x'])]
  await runs(next)
  await runs(heir)
  await add({ track: few, count: 3 })
  await add({ track: many, position: 1, count: 2_000 })
  await add({ track: many, position: 1, state: 'held', reason: 'shape', count: 2_000 })
  assert.deepEqual(await step(), { released: 0, continued: 0, held: 500, isAll: false })
  await step()
  assert.deepEqual(
    (await stand()).filter(({ track }) => track === heir).map(({ state, n }) => ({ state, n })),
    [{ state: 'ready', n: 3 }],
  )
})

test('P1: a leader of an older term moves nothing; without the term in its statements it would', async (t) => {
  const { shaped, run, newPod, runs, add, stand, step, mutate, whole, term } = await shapesOn(t)
  const [old, next] = [await shaped('old', ['a', 'b']), await shaped('new', ['a', 'x'])]
  await runs(next)
  await add({ track: old, position: 1 })
  await add({ track: next, state: 'held', reason: 'shape' })
  const before = await stand()
  const heir = await newPod()
  const newer = (await run((query) => take(query, heir, term.term)))!
  await whole(term)
  assert.deepEqual(await stand(), before)
  const unled = (text: string) =>
    text.replaceAll(/exists \(select from fleetline.leader[^)]*\)/g, '($& or true)')
  assert.notEqual(unled(MOVE), MOVE)
  mutate(unled)
  assert.deepEqual(await step(term), { released: 0, continued: 0, held: 1, isAll: true })
  mutate((text) => text)
  await whole(newer)
  assert.deepEqual(
    (await stand()).map(({ track, state }) => ({ track, state })),
    [
      { track: old, state: 'held' },
      { track: next, state: 'ready' },
    ],
    'the next leader looks again',
  )
})

test('a held task whose row was locked is looked at again a minute later', async (t) => {
  const { url, clock, shaped, runs, add, stand, whole } = await shapesOn(t)
  const track = await shaped('one', ['a'])
  await runs(track)
  await add({ track, state: 'held', reason: 'shape' })
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  atEnd(t, () => client.end())
  await client.query('begin')
  await client.query('select from fleetline.tasks for update')
  await whole()
  await client.query('commit')
  const states = async () => (await stand()).map(({ state }) => state)
  await whole()
  assert.deepEqual(await states(), ['held'])
  await clock.advance(60_000)
  await whole()
  assert.deepEqual(await states(), ['ready'])
})

test('plans: beside 50,000 other tasks, a step reads only those of the track that no pod runs', async (t) => {
  const { run, shaped, add, term } = await shapesOn(t)
  const [old, next] = [await shaped('old', ['a', 'b']), await shaped('new', ['a', 'x'])]
  for (const state of ['ready', 'waiting', 'held', 'dead'])
    await add({ track: next, state, count: 12_500, reason: state === 'held' ? 'shape' : 'suspect' })
  await add({ track: old, count: 50 })
  await add({ track: old, count: 50, state: 'waiting', reason: 'suspect' })
  await add({ track: old, count: 50, state: 'held', reason: 'shape' })
  await add({ track: old, count: 5_000, state: 'held', reason: 'shape', position: 1 }) // they stay held
  await run((query) => query('analyze fleetline.tasks'))
  const of = [term.term, term.pod, old]
  const values = [...of, [0, 1, 2], [next, null, null], [false, false, false]]
  const plans = await run(async (query) => {
    const explained = explaining(query)
    await explained.query(TRACKS)
    await explained.query(MOVE, values)
    await explained.query(RELEASE, [...of, [0], [next], [false], '00000000-0000-0000-0000-000000000000'])
    return explained.plans
  })
  assert.equal(plans.length, 3)
  for (const [index, { text, buffers }] of plans.entries()) {
    assert.doesNotMatch(text, /Seq Scan","[^}]*"Relation Name":"tasks"|tasks_pkey/)
    const most = index === 0 ? 100 : 3_000 // about ten pages per task, for its row and its indexes
    assert.ok(buffers < most, `${buffers} pages`)
  }
})
