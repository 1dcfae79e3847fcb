// Machines on a pod and PostgreSQL: what is written for every outcome, what a drain leaves behind, and what a resume costs.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { z } from 'zod'
import { machine } from '../../src/machine/definition.ts'
import { abort, hold, retryAfter } from '../../src/machine/outcomes.ts'
import type { Machine } from '../../src/task/machine.ts'
import { eventually } from '../support/eventually.ts'
import { newPod } from '../support/pod.ts'
import { queueOn } from '../support/tasks.ts'

const TEXT = { input: z.string(), output: z.string() }

type Row = {
  readonly machine: string
  readonly state: string
  readonly reason: string | null
  readonly via: string | null
  readonly position: number
  readonly spent: number
  readonly attempt: number
  readonly result: unknown
  readonly code: string | null
  readonly carry: Readonly<Record<string, Readonly<Record<string, unknown>>>> | null
}
const ROWS = `
  select k.machine, x.* from fleetline.tracks k join (
    select track, state::text, reason, null as via, position, spent, attempt, null as result, error ->> 'code' as code, carry
      from fleetline.tasks
    union all
    select track, outcome, null, via, position, spent, attempt, result, error ->> 'code', carry from fleetline.task_history
  ) x on x.track = k.id order by k.machine`

async function machinesOn(t: TestContext) {
  const { url, run } = await queueOn(t)
  return {
    url,
    run,
    podOf: async (tasks: readonly Machine[], flags = {}) => {
      const pod = newPod(t, url, flags, { tasks })
      await pod.start()
      return pod
    },
    rows: () => run((query) => query<Row>(ROWS)),
    hurry: () => run((query) => query(`update fleetline.tasks set run_at = now() where state = 'waiting'`)),
  }
}

test('Q14: every outcome of a transition is the row that its table names', async (t) => {
  const { podOf, rows, hurry } = await machinesOn(t)
  const fails = { attempts: 2 }
  const begin = (name: string) => machine(name, TEXT).to('first', async (c) => c.input.length)
  const second = (name: string, body: () => string, limits = {}) =>
    begin(name)
      .to('second', async () => body(), limits)
      .end((c) => c.out.second)
  const machines = [
    second('aborts', () => abort('never')),
    second('asks.operator', () => abort('look', { kind: 'system' })),
    second('done', () => 'yes'),
    begin('hands.off')
      .check('knows', async (c) => c.handoff('known'))
      .to('second', async () => assert.fail('it does not come to that'))
      .end(() => ''),
    second('holds', () => hold('ask legal')),
    second('later', () => retryAfter('1h')),
    second('throws', () => assert.fail('no luck'), fails),
    second('too.large', () => 'x'.repeat(70_000)),
  ]
  const pod = await podOf(machines)
  await pod.enqueueAll(machines.map((one) => ({ machine: one as Machine<string>, input: 'abc' })))
  const found = await eventually(
    async () => {
      const all = await rows()
      assert.ok(!all.some(({ state }) => state === 'ready' || state === 'claimed'))
      if (all.some(({ machine: name, state }) => name === 'throws' && state === 'waiting')) await hurry()
      assert.ok(all.some(({ machine: name, state }) => name === 'throws' && state === 'dead'))
      return all
    },
    { what: 'every task to come to rest' },
  )
  assert.deepEqual(
    found.map((row) => [row.machine, row.state, row.reason ?? row.via, row.position, row.result, row.code]),
    [
      ['aborts', 'failed', null, 1, null, 'aborted'],
      ['asks.operator', 'dead', 'failed', 1, null, 'aborted'],
      ['done', 'done', null, 2, 'yes', null],
      ['hands.off', 'done', 'handoff', 1, 'known', null],
      ['holds', 'held', 'hold', 1, null, 'hold'],
      ['later', 'waiting', 'later', 1, null, 'later'],
      ['throws', 'dead', 'failed', 1, null, 'ERR_ASSERTION'],
      ['too.large', 'dead', 'failed', 1, null, 'too_large'],
    ],
  )
  const [later, throws] = ['later', 'throws'].map((name) => found.find((row) => row.machine === name)!)
  assert.deepEqual([later!.spent, throws!.spent], [0, 2], 'what counts is counted for the transition')
  const { first, second: last } = found.find((row) => row.machine === 'done')!.carry!
  assert.deepEqual([first!['value'], last!['value'], last!['attempt']], [3, 'yes', 1])
  assert.match(String(first!['at']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.equal(typeof first!['ms'], 'number')
})

test('a pod that drains ends the transition that runs and hands the task back there; another goes on, and nothing is counted', async (t) => {
  const { podOf, rows, run } = await machinesOn(t)
  const opened = Promise.withResolvers<void>()
  const ran: string[] = []
  const trip = machine('trip', TEXT)
    .to('a', async () => {
      ran.push('a')
      await opened.promise
      return 1
    })
    .to('b', async (c) => void ran.push(`b ${c.attempt} ${c.resumed}`))
    .end((c) => c.input)
  const first = await podOf([trip], { drainMs: '60000' })
  await first.enqueue({ machine: trip, input: 'x' })
  await eventually(() => assert.deepEqual(ran, ['a']), { what: 'the first transition to run' })
  const stopped = first.stop()
  await eventually(
    async () => {
      const [pod] = await run((query) => query<{ state: string }>('select state from fleetline.pods'))
      assert.equal(pod!.state, 'draining')
    },
    { what: 'the pod to drain' },
  )
  opened.resolve()
  await stopped
  assert.deepEqual(ran, ['a'])
  assert.deepEqual(
    (await rows()).map(({ state, position, spent, attempt }) => [state, position, spent, attempt]),
    [['ready', 1, 0, 1]],
  )
  await podOf([trip])
  await eventually(async () => assert.equal((await rows())[0]!.state, 'done'), { what: 'the rest' })
  assert.deepEqual(ran, ['a', 'b 1 true'])
})
