// Tasks from outside: over HTTP, from the command line, through the library. Also the metrics of the leader about the queue.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { formatId, type Task, type TaskState, type TaskSummary } from '@fleetline/protocol'
import { TASKS } from '../../src/cli/tasks.ts'
import type { Database } from '../../src/store/database.ts'
import { task } from '../../src/machine/definition.ts'
import { createDirectory } from '../../src/task/directory.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/http.ts'
import { explaining, type Plan } from '../support/plan.ts'
import { newPod } from '../support/pod.ts'
import { queueOn } from '../support/tasks.ts'
import { typing } from '../support/terminal.ts'

type Setup = Awaited<ReturnType<typeof podWith>>

/** A pod with the tasks `double` and `fails`. `fails` fails while `state.isBroken` is true. */
async function podWith(t: Parameters<typeof queueOn>[0]) {
  const queue = await queueOn(t)
  const state = { isBroken: true }
  const double = task('double', (c) => (c.input as number) * 2)
  const fails = task(
    'fails',
    () => {
      if (state.isBroken) throw new Error('not today')
      return 'at last'
    },
    { attempts: 1, queue: 'fragile' },
  )
  const pod = newPod(t, queue.url, {}, { tasks: [double, fails] })
  await pod.start()
  const { gateway, admin } = pod.ports()
  const url = `http://127.0.0.1:${gateway}`
  return { ...queue, pod, state, gateway: url, admin: `http://127.0.0.1:${admin}` }
}

const untilState = (pod: Setup['pod'], id: string, state: string) =>
  eventually(
    async () => {
      const found = await pod.findTask(id)
      assert.equal(found?.state, state)
      return found
    },
    { what: `${id} to be ${state}` },
  )

test('a task enqueued over HTTP is found with its result, and is stored once under its id', async (t) => {
  const { pod, gateway } = await podWith(t)
  const { status, body } = await call('POST', `${gateway}/v1/tasks`, { machine: 'double', input: 21 })
  assert.equal(status, 200)
  assert.equal(body['created'], true)
  const id = body['id'] as string
  await untilState(pod, id, 'done')
  const got = await call('GET', `${gateway}/v1/tasks/${id}`)
  const { input, result, state, attempt, spent, endedAt, error } = got.body as Task
  assert.deepEqual(
    { input, result, state, attempt, spent, error },
    { input: 21, result: 42, state: 'done', attempt: 1, spent: 1, error: null },
  )
  assert.ok(endedAt)
  const again = await call('POST', `${gateway}/v1/tasks`, { machine: 'double', input: 21, id })
  assert.deepEqual(again, { status: 200, body: { id, created: false } })

  const refused = [
    [{ machine: 'double', input: 22, id }, 409, /Another task has this id/],
    [{ machine: 'nobody' }, 404, /No pod has run nobody in queue default yet/],
    [{ machine: 'a/b' }, 400, /machine: must match/],
    [{ machine: 'double', priority: 8 }, 400, /priority: must be from 0 to 7/],
    [{ machine: 'double', runAt: 'soon' }, 400, /body.runAt/],
    [{ machine: 'double', run_at: '2027-01-01T00:00:00Z' }, 400, /run_at/],
    [{ machine: 'double', runAt: '+275000-01-01T00:00:00Z' }, 400, /runAt/],
    [{ machine: 'double', id: 'x' }, 400, /id: is not the id of a task here/],
    [{ machine: 'double', input: 'a\u0000b' }, 400, /input: the character U\+0000/],
    [{ machine: 'double', input: 'x'.repeat(270_000) }, 413, /input: over 262144 bytes/],
  ] as const
  for (const [sent, expected, text] of refused) {
    const answer = await call('POST', `${gateway}/v1/tasks`, sent)
    assert.equal(answer.status, expected, JSON.stringify(answer.body))
    assert.match((answer.body['error'] as { text: string }).text, text)
  }
})

test('the list shows live and ended tasks, the newest first, and only those that the query asks for', async (t) => {
  const { pod, gateway } = await podWith(t)
  const runAt = new Date(Date.now() + 3_600_000)
  const ids: string[] = []
  for (const wanted of [
    { machine: 'double', input: 1 },
    { machine: 'double', input: 2, runAt },
    { machine: 'fails', queue: 'fragile' },
    { machine: 'double', input: 3 },
  ]) {
    ids.push((await pod.enqueue(wanted)).id)
    await pause(5) // ids of one millisecond have no order
  }
  const [first, waits, dead, last] = ids as [string, string, string, string]
  await Promise.all([
    untilState(pod, first, 'done'),
    untilState(pod, last, 'done'),
    untilState(pod, dead, 'dead'),
  ])
  const listed = async (query: string) => {
    const { status, body } = await call('GET', `${gateway}/v1/tasks?${query}`)
    return status === 200 ? (body as { tasks: TaskSummary[] }).tasks.map(({ id }) => id) : status
  }
  const expected = {
    '': [last, dead, waits, first],
    'limit=2': [last, dead],
    [`before=${dead}`]: [waits, first],
    'state=done': [last, first],
    'state=dead': [dead],
    'state=ready': [],
    'queue=fragile': [dead],
    'machine=double&state=waiting': [waits],
    'queue=fragile&machine=double': [],
    'machine=nobody': [],
    'state=gone': 400,
    'queue=%00': 400,
    'before=x': 400,
  }
  const found: Record<string, unknown> = {}
  for (const query of Object.keys(expected)) found[query] = await listed(query)
  assert.deepEqual(found, expected)
  const [row] = (await pod.listTasks({ state: 'dead' })).tasks as [TaskSummary]
  assert.equal(row.queue, 'fragile')
  assert.equal(row.machine, 'fails')
  assert.equal(row.reason, 'failed')
  assert.equal(row.code, 'failed')
  assert.equal('input' in row, false)
})

test('Q4 Q14: a person can retry a dead task once, and it keeps its id, its input and its error', async (t) => {
  const { pod, state, gateway, history } = await podWith(t)
  const { id } = await pod.enqueue({ machine: 'fails', queue: 'fragile', input: { keep: 'me' } })
  await untilState(pod, id, 'dead')
  state.isBroken = false
  const clicks = await Promise.all([1, 2, 3].map(() => call('POST', `${gateway}/v1/tasks/${id}/retry`)))
  assert.deepEqual(clicks.map(({ status }) => String(status)).toSorted(), ['200', '409', '409'])
  const { input, result, attempt, spent, error } = await untilState(pod, id, 'done')
  assert.deepEqual(
    { input, result, attempt, spent, code: (error as { code: string }).code },
    { input: { keep: 'me' }, result: 'at last', attempt: 2, spent: 1, code: 'failed' },
  )
  assert.equal((await history()).length, 1)
  const late = await call('POST', `${gateway}/v1/tasks/${id}/retry`)
  assert.equal(late.status, 409)
  assert.equal(
    (late.body['error'] as { text: string }).text,
    'The task is done: only one that is dead or held is retried',
  )
})

test('the commands tasks ls, get, enqueue and retry print what they find, or why they fail', async (t) => {
  const { pod, state, gateway: url } = await podWith(t)
  const type = typing(TASKS, 'tasks')
  const json = { url, json: true }
  const made = await type(json, 'enqueue', ['double', '21'], { priority: '5', maxAttempts: '2' })
  const { id } = JSON.parse(made.out) as { id: string }
  await untilState(pod, id, 'done')
  assert.match((await type({ url }, 'ls')).out, new RegExp(`^${id}\tdouble\tdone\tnull\tnull\t1\tnull\t20`))
  assert.match((await type({ url }, 'get', [id])).out, /^result\t42$/m)
  const broken = JSON.parse((await type(json, 'enqueue', ['fails'], { queue: 'fragile' })).out) as {
    id: string
  }
  await untilState(pod, broken.id, 'dead')
  const [first, last] = (await type(json, 'ls', [], { limit: '1' })).out.split('\n')
  assert.equal((JSON.parse(first!) as { id: string }).id, broken.id)
  assert.deepEqual(JSON.parse(last!), { next: broken.id }, 'the last line says where the next page begins')
  assert.match(
    (await type({ url, isTTY: true }, 'ls', [], { state: 'dead' })).out,
    /^ID .* CODE +CREATEDAT\n.* dead +null +failed +1 +failed/,
  )
  state.isBroken = false
  assert.equal((await type({ url }, 'retry', [broken.id])).code, 0)
  await untilState(pod, broken.id, 'done')

  const absent = formatId('task', 0, '01890000-0000-7000-8000-000000000000')
  const failures = [
    [await type({ url }, 'get', [absent]), 3, /no such task/],
    [await type({ url }, 'retry', [id]), 4, /The task is done/],
    [await type({ url }, 'retry', [id], { from: 'gone' }), 2, /from: must be one of run/],
    [await type({ url }, 'enqueue', ['double', '{']), 2, /input must be JSON/],
    [
      await type({ url }, 'enqueue', ['double'], { priority: '9' }),
      2,
      /--priority must be a whole number from 0 to 7/,
    ],
    [await type({ url }, 'enqueue', ['nobody']), 3, /start one that knows it/],
    [await type({ url: 'http://127.0.0.1:1' }, 'enqueue', ['double']), 5, /is not known/],
  ] as const
  for (const [{ code, err, out }, expected, text] of failures) {
    assert.equal(code, expected, `exit code ${code}: ${err}`)
    assert.equal(out, '')
    assert.match(err, text)
  }
})

test('metrics of the leader show the age of the oldest task in a queue, and how many tasks are dead', async (t) => {
  const { pod, run, tracks, admin } = await podWith(t)
  const { id } = await pod.enqueue({ machine: 'fails', queue: 'fragile' })
  await untilState(pod, id, 'dead')
  // Two tasks of a machine that no pod runs: one is ready, and an older one is a suspect.
  const add = `insert into fleetline.tasks (id, track, tenant, state, reason, max_attempts, input, run_at)
    values (gen_random_uuid(), $1, 1, $2, $3, 5, '{}', now() - $4::interval)`
  await run(async (query) => {
    await query(add, [tracks[0], 'ready', null, '1 hour'])
    await query(add, [tracks[0], 'waiting', 'suspect', '2 hours'])
  })
  await eventually(
    async () => {
      const text = await (await fetch(`${admin}/metrics`)).text()
      assert.match(text, /^fleetline_tasks_dead\{queue="fragile",machine="fails"\} 1$/m)
      assert.match(text, /^fleetline_queue_oldest_seconds\{queue="default",machine="work"\} 7[23]\d\d/m)
      assert.match(text, /^fleetline_queue_oldest_seconds\{queue="fragile",machine="fails"\} 0$/m)
    },
    { what: 'the metrics' },
  )
})

test('plans: a list of the newest tasks, or of one state, does not read the other 50,000', async (t) => {
  const { database, run, tracks, newPod: joined } = await queueOn(t)
  const pod = await joined()
  const add = `insert into fleetline.tasks (id, track, tenant, state, pod, max_attempts, input)
    select gen_random_uuid(), $1, 1, $2, $3, 5, '{}' from generate_series(1, $4)`
  await run(async (query) => {
    await query(add, [tracks[0], 'waiting', null, 50_000])
    await query(add, [tracks[0], 'dead', null, 100])
    await query(add, [tracks[0], 'claimed', pod, 20])
    await query(
      `insert into fleetline.task_history (id, created_at, track, tenant, attempt, pod, priority, spent, outcome, input)
       select gen_random_uuid(), now(), $1, 1, 1, 1, 3, 1, case when n % 1000 = 0 then 'failed' else 'done' end, '{}'
         from generate_series(1, 20000) n`,
      [tracks[0]],
    )
    await query('analyze fleetline.tasks, fleetline.task_history')
  })
  const listed = async (state?: TaskState) => {
    const plans: Plan[] = []
    const explained: Pick<Database, 'transaction'> = {
      transaction: (work, options) =>
        database.transaction(async (query) => {
          const under = explaining(query)
          const value = await work(under.query)
          plans.push(...under.plans)
          return value
        }, options),
    }
    await createDirectory({ database: explained, cell: 0, onReady: () => undefined }).list(1, { state })
    return plans[0]!
  }
  for (const state of [undefined, 'dead', 'claimed', 'done', 'failed'] as const) {
    const { buffers, text } = await listed(state)
    assert.ok(buffers < 500, `${state}: ${buffers} pages ${text}`)
  }
})
