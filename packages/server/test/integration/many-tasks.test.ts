// Lists and counts over many tasks read a bounded number of rows. Lists stay complete; large counts are estimates.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TaskSummary } from '@fleetline/protocol'
import { readPopulation, type Population } from '../../src/machine/population.ts'
import { createDirectory } from '../../src/task/directory.ts'
import type { TaskFilter } from '../../src/task/list.ts'
import { register } from '../../src/task/tracks.ts'
import { queueOn, TENANT } from '../support/tasks.ts'

const MANY = 45_000 // more than two pages can read
const OTHER = 2

// The id of row n. SPREAD: each id has its own time. CROWDED: all ids have the same time.
const SPREAD = `(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid`
const CROWDED = `('00000001-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
const LIVE = (id: string) => `
  insert into fleetline.tasks (id, track, tenant, state, max_attempts, input)
  select ${id}, $1, $2, 'waiting', 5, '{}' from unnest($3::int[]) n`
const ENDED = (id: string) => `
  insert into fleetline.task_history (id, created_at, track, tenant, attempt, pod, priority, spent, outcome, input)
  select ${id}, now(), $1, $2, 1, 1, 3, 1, 'done', '{}' from unnest($3::int[]) n`

/** Many tasks of another tenant, and a few of ours between them. */
async function crowdOn(t: Parameters<typeof queueOn>[0], id: string) {
  const { database, run, tracks } = await queueOn(t)
  const [rare] = await register(database, [
    { queue: 'default', name: 'rare', shape: '', transitions: ['run'], maxAttempts: 5 },
  ])
  const [all, ours] = [Array.from({ length: MANY }, (_, n) => n), [0, 1, 21_000, 21_001, 44_000]]
  const theirs = all.filter((n) => !ours.includes(n))
  await run(async (query) => {
    await query(LIVE(id), [tracks[0], OTHER, theirs])
    await query(ENDED(id), [tracks[0], OTHER, theirs.filter((n) => n % 2 === 0)]) // half as many: 20,000 rows reach further back
    await query(LIVE(id), [rare, TENANT, ours.filter((n) => n % 2 === 0)])
    await query(ENDED(id), [rare, TENANT, ours.filter((n) => n % 2 === 1)])
    await query('analyze fleetline.tasks, fleetline.task_history')
  })
  const directory = createDirectory({ database, cell: 0, onReady: () => undefined })
  const walk = async (filter: TaskFilter = {}) => {
    const [tasks, starts]: [TaskSummary[], (string | undefined)[]] = [[], []]
    for (let before: string | null | undefined; before !== null;) {
      starts.push(before)
      const page = await directory.list(TENANT, { ...filter, before })
      tasks.push(...page.tasks)
      before = page.next
    }
    return { tasks, starts }
  }
  const idsOf = async () =>
    (
      await run((query) =>
        query<{ id: string }>(`
          select id from fleetline.tasks where tenant = ${TENANT}
          union all select id from fleetline.task_history where tenant = ${TENANT} order by id desc`),
      )
    ).map((row) => `tsk_0000${row.id.replaceAll('-', '')}`)
  return { walk, idsOf, directory }
}

for (const [how, id] of [
  ['spread over time', SPREAD],
  ['made in one millisecond', CROWDED],
] as const)
  test(`pages among ${MANY} tasks of another tenant, ${how}, show all of ours once, in order`, async (t) => {
    const { walk, idsOf, directory } = await crowdOn(t, id)
    const ours = await idsOf()
    for (const filter of [{}, { machine: 'rare' }, { limit: 1 }]) {
      const { tasks, starts } = await walk(filter)
      assert.deepEqual(
        tasks.map((one) => one.id),
        ours,
        JSON.stringify(filter),
      )
      assert.ok(starts.length >= 3, `${starts.length} pages: one page must not read everything`)
    }
    const waiting = await walk({ state: 'waiting' })
    assert.equal(waiting.tasks.length, 3)
    const ends = waiting.starts.slice(1).map(String)
    if (id === SPREAD) for (const end of ends) assert.match(end, /bfffffffffffffff$/, 'S3: no id of theirs')
    assert.deepEqual(await directory.list(TENANT, { state: 'failed' }), { tasks: [], next: null })
  })

test('a few tasks are counted state by state; many are estimated', async (t) => {
  const { database, run, tracks } = await queueOn(t)
  const add = `insert into fleetline.tasks (id, track, tenant, state, reason, max_attempts, input)
    select gen_random_uuid(), $1, 1, $2, $3, 5, to_jsonb(repeat('x', 900)) from generate_series(1, $4::int)`
  const standing = async () => {
    const [{ estimated, transitions }] = (await readPopulation(database)) as [Population]
    return { estimated, ...transitions[0]! }
  }
  await run(async (query) => {
    await query(add, [tracks[0], 'dead', 'failed', 5])
    await query(add, [tracks[0], 'held', 'hold', 2])
    await query(add, [tracks[0], 'waiting', null, 700])
    await query(add, [tracks[0], 'ready', null, 1_000])
  })
  const { oldestMs, ...few } = await standing()
  assert.ok(oldestMs > 0, `${oldestMs} ms`)
  assert.deepEqual(few, {
    name: 'run',
    ready: 1_000,
    waiting: 700,
    claimed: 0,
    held: 2,
    dead: 5,
    reasons: ['hold'],
    estimated: false,
  })
  await run((query) => query(add, [tracks[0], 'ready', null, 20_000]))
  const { ready, waiting, held, dead, estimated } = await standing()
  assert.deepEqual({ waiting, held, dead, estimated }, { waiting: 700, held: 2, dead: 5, estimated: true })
  assert.ok(Math.abs(ready - 21_000) < 6_000, `${ready} of 21000`)
})
