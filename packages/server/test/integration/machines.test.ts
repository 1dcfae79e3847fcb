// Machines on a pod and PostgreSQL: what is written for every outcome, what a drain leaves behind, and what a resume costs.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { z } from 'zod'
import { machine } from '../../src/machine/definition.ts'
import { abort, hold, retryAfter } from '../../src/machine/outcomes.ts'
import { MACHINES } from '../../src/cli/machines.ts'
import { join } from '../../src/fleet/pods.ts'
import { valueOf, type Database } from '../../src/store/database.ts'
import { claim } from '../../src/task/claim.ts'
import type { Machine } from '../../src/task/machine.ts'
import type { Runner } from '../../src/task/runner.ts'
import { createSettler } from '../../src/task/settle.ts'
import { createTracks } from '../../src/task/tracks.ts'
import { eventually } from '../support/eventually.ts'
import { around } from '../support/machines.ts'
import { newPod } from '../support/pod.ts'
import { queueOn } from '../support/tasks.ts'
import { typing } from '../support/terminal.ts'
import { asksFor } from '../support/throttle.ts'

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

test('Q14: every outcome of a transition is stored as declared', async (t) => {
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
    found.map((row) => ({
      machine: row.machine,
      state: row.state,
      why: row.reason ?? row.via,
      position: row.position,
      result: row.result,
      code: row.code,
    })),
    [
      { machine: 'aborts', state: 'failed', why: null, position: 1, result: null, code: 'aborted' },
      { machine: 'asks.operator', state: 'dead', why: 'failed', position: 1, result: null, code: 'aborted' },
      { machine: 'done', state: 'done', why: null, position: 2, result: 'yes', code: null },
      { machine: 'hands.off', state: 'done', why: 'handoff', position: 1, result: 'known', code: null },
      { machine: 'holds', state: 'held', why: 'hold', position: 1, result: null, code: 'hold' },
      { machine: 'later', state: 'waiting', why: 'later', position: 1, result: null, code: 'later' },
      { machine: 'throws', state: 'dead', why: 'failed', position: 1, result: null, code: 'ERR_ASSERTION' },
      { machine: 'too.large', state: 'dead', why: 'failed', position: 1, result: null, code: 'too_large' },
    ],
  )
  const [later, throws] = ['later', 'throws'].map((name) => found.find((row) => row.machine === name)!)
  assert.equal(later!.spent, 0, 'a wait spends no attempt')
  assert.equal(throws!.spent, 2, 'each failure spends an attempt of its transition')
  const { first, second: last } = found.find((row) => row.machine === 'done')!.carry!
  assert.equal(first!['value'], 3)
  assert.equal(last!['value'], 'yes')
  assert.equal(last!['attempt'], 1)
  assert.match(String(first!['at']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.equal(typeof first!['ms'], 'number')
})

test('a draining pod finishes the running transition and hands the task back without a counted attempt; another pod resumes it there', async (t) => {
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
    (await rows()).map(({ state, position, spent, attempt }) => ({ state, position, spent, attempt })),
    [{ state: 'ready', position: 1, spent: 0, attempt: 1 }],
  )
  await podOf([trip])
  await eventually(async () => assert.equal((await rows())[0]!.state, 'done'), { what: 'the rest' })
  assert.deepEqual(ran, ['a', 'b 1 true'])
})

test('a dead or held task that is retried resumes where it stopped, or at an earlier transition', async (t) => {
  const { podOf } = await machinesOn(t)
  const ran: string[] = []
  let isMended = false
  const trip = machine('trip', TEXT)
    .to('first', async () => void ran.push('first'))
    .to(
      'second',
      async (c) => {
        ran.push('second')
        if (isMended) return
        if (c.input === 'held') hold('ask legal')
        throw new Error('no luck')
      },
      { attempts: 1 },
    )
    .to('third', async () => void ran.push('third'))
    .end((c) => c.input)
  const pod = await podOf([trip])
  const until = (id: string, state: string) =>
    eventually(
      async () => {
        const task = (await pod.findTask(id))!
        assert.equal(task.state, state)
        return task
      },
      { what: `the task to be ${state}` },
    )
  for (const [input, from, again] of [
    ['dead', undefined, ['second', 'third']],
    ['held', undefined, ['second', 'third']],
    ['dead', 'first', ['first', 'second', 'third']],
  ] as const) {
    isMended = false
    const { id } = await pod.enqueue({ machine: trip, input })
    const stuck = await until(id, input)
    assert.equal(stuck.transition, 'second')
    assert.deepEqual(
      stuck.timeline.map(({ state }) => state),
      ['done', input, 'ahead'],
    )
    await assert.rejects(pod.retryTask(id, { from: 'fourth' }), /from: must be one of first, second, third/)
    await assert.rejects(pod.retryTask(id, { from: 'third' }), /not come to third yet: it stands at second/)
    isMended = true
    ran.length = 0
    await pod.retryTask(id, from === undefined ? {} : { from })
    const done = await until(id, 'done')
    assert.deepEqual(ran, again)
    assert.deepEqual(
      done.timeline.map(({ state }) => state),
      ['done', 'done', 'done'],
    )
    assert.deepEqual(
      done.timeline.map(({ attempt }) => attempt),
      from ? [2, 2, 2] : [1, 2, 2],
    )
    await assert.rejects(pod.retryTask(id), /only one that is dead or held/)
  }
})

test('a resume costs two statements wherever it begins: the claim reads all that it needs', async (t) => {
  const { run } = await machinesOn(t)
  const names = Array.from({ length: 32 }, (_, n) => `n${n}`)
  const begun = machine('long', TEXT)
  const whole = names
    .reduce(
      (so, name) =>
        so.to(name as 'a', async (c) => c.handoff(`${name} ${Object.keys(c.out).length}`)) as typeof begun,
      begun,
    )
    .end(() => '')
  const statements: string[] = []
  const database: Pick<Database, 'transaction'> = {
    transaction: async (work) => ({
      type: 'committed',
      value: await run((query) =>
        work((text, values) => {
          statements.push(text)
          return query(text, values)
        }),
      ),
    }),
  }
  const tracks = createTracks({ database, machines: [whole], turns: [] })
  await tracks.start()
  const [[track, runner]] = [...tracks.runners] as [[number, Runner]]
  const settler = createSettler({ ...around(), database, deadlineMs: 60_000 })
  const pod = await run((query) => join(query, { name: 'p', version: '0', tracks: [track] }))
  const cost = async (position: number) => {
    const entry = { value: 'x', at: '', attempt: 1, ms: 1 }
    const carry = Object.fromEntries(names.slice(0, position).map((name) => [name, entry]))
    await run(async (query) => {
      await query(`select fleetline.enqueue('default', 'long', '"x"')`)
      await query('update fleetline.tasks set position = $1, carry = $2', [position, carry])
    })
    statements.length = 0
    const wish = { pod, asks: asksFor([track], 1), most: 1, suspects: 0, turn: 0 }
    const outcome = await database.transaction((query) => claim(query, wish))
    const [held] = valueOf(outcome, 'no claim')
    const end = await runner.run(held!, around())
    assert.ok('result' in end, JSON.stringify(end))
    assert.deepEqual(JSON.parse(end.result), `n${position} ${position}`)
    await settler.settle({ pod, id: held!.id, attempt: held!.attempt, settlement: end })
    return statements.length
  }
  assert.equal(await cost(3), 2, 'at position 3: a claim and a settlement')
  assert.equal(await cost(30), 2, 'at position 30: a claim and a settlement')
})

test('a body sees the same output when it is new and when it is read back from the row, and cannot change it', async (t) => {
  const { podOf } = await machinesOn(t)
  const odd = {
    zz: 1,
    b: [{ y: 2, x: null }],
    é: 'é',
    a: 1e21,
    '10': 0,
    '9': -0,
    long: { deep: { c: 1, bb: 2 } },
  }
  const seen: string[] = []
  const frozen: object[] = []
  const trip = machine('trip', TEXT)
    .to('a', async () => odd)
    .to('b', async (c) => {
      seen.push(JSON.stringify(c.out.a))
      frozen.push({
        outputs: Object.isFrozen(c.out),
        list: Object.isFrozen(c.out.a.b),
        entry: Object.isFrozen(c.out.a.b[0]),
      })
      if (seen.length === 1) retryAfter('1ms')
    })
    .end((c) => c.input)
  const pod = await podOf([trip])
  await pod.enqueue({ machine: trip, input: 'x' })
  await eventually(() => assert.equal(seen.length, 2), { what: 'the second attempt' })
  assert.equal(seen[0], seen[1])
  const everything = { outputs: true, list: true, entry: true }
  assert.deepEqual(frozen, [everything, everything])
})

test('if the end fails, the last transition stays recorded; an invalid result makes the task dead', async (t) => {
  const { podOf, rows, hurry } = await machinesOn(t)
  const ran: string[] = []
  const ends = machine('ends', TEXT)
    .to('charge', async () => void ran.push('charge'), { attempts: 2 })
    .end(() => {
      ran.push('end')
      throw new Error('a bug')
    })
  const wrong = machine('wrong', TEXT)
    .to('charge', async () => 'ch_1')
    .end(() => 1 as never)
  const pod = await podOf([ends, wrong])
  const [enqueued] = await pod.enqueueAll([
    { machine: ends, input: 'x' },
    { machine: wrong, input: 'x' },
  ])
  const found = await eventually(
    async () => {
      await hurry()
      const all = await rows()
      assert.ok(all.every(({ state }) => state === 'dead'))
      return all
    },
    { what: 'both to be dead' },
  )
  assert.deepEqual(
    found.map(({ machine: name, position, spent, code }) => ({ name, position, spent, code })),
    [
      { name: 'ends', position: 1, spent: 2, code: 'failed' },
      { name: 'wrong', position: 1, spent: 1, code: 'invalid' },
    ],
  )
  assert.deepEqual(ran, ['charge', 'end', 'end'], 'only the end is tried again')
  const task = (await pod.findTask(enqueued!.id))!
  assert.equal(task.transition, 'end')
  assert.deepEqual(
    task.timeline.map(({ name, state }) => ({ name, state })),
    [
      { name: 'charge', state: 'done' },
      { name: 'end', state: 'dead' },
    ],
  )
  assert.match(
    await (await fetch(`http://127.0.0.1:${pod.ports().admin}/metrics`)).text(),
    /fleetline_transitions_total{machine="ends",transition="charge",outcome="recorded"} 1\n/,
  )
})

test('machines ls shows the number and age of tasks at each transition; metrics count every transition', async (t) => {
  const { podOf } = await machinesOn(t)
  const trip = machine('trip', TEXT)
    .to('a', async () => 1)
    .to('b', async (c) => (c.input === 'held' ? hold('ask legal') : c.handoff('known')))
    .to('c', async () => 1)
    .end((c) => c.input)
  const pod = await podOf([trip])
  await pod.enqueueAll(['held', 'held', 'free'].map((input) => ({ machine: trip, input })))
  const admin = `http://127.0.0.1:${pod.ports().admin}`
  const type = typing(MACHINES, 'machines')
  const shown = await eventually(
    async () => {
      const { out } = await type({ url: admin, json: true }, 'ls')
      const lines = out
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>)
      const ours = lines.filter((line) => line['machine'] === 'trip')
      assert.equal(ours[1]?.['held'], 2)
      return ours
    },
    { what: 'two to be held' },
  )
  assert.deepEqual(
    shown.map(({ transition, pods, held, reasons, ready }) => ({ transition, pods, held, reasons, ready })),
    [
      { transition: 'a', pods: 1, held: 0, reasons: '', ready: 0 },
      { transition: 'b', pods: 1, held: 2, reasons: 'hold', ready: 0 },
      { transition: 'c', pods: 1, held: 0, reasons: '', ready: 0 },
    ],
  )
  const oldestMs = Number(shown[1]!['oldestMs'])
  assert.ok(oldestMs > 0, `${oldestMs} ms`)
  const table = await type({ url: admin, isTTY: true }, 'ls')
  assert.match(table.out, /^QUEUE +MACHINE +SHAPE +PODS +TRANSITION +READY/)
  await eventually(
    async () => {
      const text = await (await fetch(`${admin}/metrics`)).text()
      for (const line of [
        'fleetline_transitions_total{machine="trip",transition="a",outcome="recorded"} 3',
        'fleetline_transitions_total{machine="trip",transition="b",outcome="held"} 2',
        'fleetline_transitions_total{machine="trip",transition="b",outcome="handoff"} 1',
        'fleetline_transition_seconds_count{machine="trip",transition="b"} 3',
        'fleetline_tasks_held{queue="default",machine="trip",reason="hold"} 2',
      ])
        assert.ok(text.includes(line), line)
    },
    { what: 'the leader to say how many are held' },
  )
})
