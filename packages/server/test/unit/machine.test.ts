// Machines as values and as types: what compiles, what is refused where it is written, and the way through one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TaskState } from '@fleetline/protocol'
import { z } from 'zod'
import type { Config } from '../../src/config.ts'
import { createSlots } from '../../src/lib/waiters.ts'
import { findKeptPositions } from '../../src/machine/shape-fit.ts'
import { machine, task, type Free } from '../../src/machine/definition.ts'
import { abort, hold } from '../../src/machine/outcomes.ts'
import { createPod, type Pod } from '../../src/pod.ts'
import type { Machine } from '../../src/task/machine.ts'
import type { Surroundings } from '../../src/task/runner.ts'
import type { DoneTransition } from '../../src/task/settle.ts'
import { timelineOf } from '../../src/task/timeline.ts'
import { manualClock } from '../support/clock.ts'
import { around, CLAIM } from '../support/machines.ts'

const In = z.object({ key: z.string() })
const Out = z.object({ dir: z.string(), bytes: z.number() })
const image = { input: In, output: Out }

/** Types alone: this is compiled, not called. */
export async function typed(pod: Pod, config: Config, anyName: string): Promise<void> {
  const begun = machine('image.fetch', image)
    .check('exists', async (c) => (c.input.key === 'there' ? c.handoff({ dir: 'd', bytes: 1 }) : undefined))
    .check('is.wanted', async () => undefined)
    .to('download', async (c) => ({ path: c.input.key, bytes: c.attempt }), {
      timeout: '2m',
      maxBytes: 4_096,
    })
    .to('note', async (c) => c.log(c.out.download.path))
    .to('unpack', async (c) => {
      if (c.out.download.bytes === 0) return c.handoff({ dir: '', bytes: 0 })
      return { dir: `${c.out.download.path}.d` }
    })
  const whole = begun.end((c) => ({ dir: c.out.unpack.dir, bytes: c.out.download.bytes }))
  await pod.enqueue({ machine: whole, input: { key: 'cat' } })
  createPod(config, { tasks: [whole, task('plain', () => 1)] })
  const found = await pod.findTask('tsk_', whole)
  const result: { dir: string; bytes: number } | null | undefined = found?.result
  // @ts-expect-error: the result of another machine
  const other: number | null | undefined = found?.result

  const taken: Free<'note', { note: 1 }> = 'transition "note" is already defined'
  // @ts-expect-error: a name used twice
  begun.to('download', async () => [taken, result, other])
  // @ts-expect-error: a name that is not a literal
  begun.to(anyName, async () => 1)
  // @ts-expect-error: a name that is one of two
  begun.to(anyName === 'x' ? 'x' : 'y', async () => 1)
  const length = machine('length', { input: In, output: z.string().transform((text) => text.length) })
  const sized = length
    .to('maybe', async (c) => (c.attempt > 1 ? 'x' : undefined))
    .end((c) => c.out.maybe ?? 'none')
  const measured: Machine<{ key: string }, number> = sized
  createPod(config, { tasks: [measured] })
  // @ts-expect-error: nothing comes back as null
  length.to('maybe', async () => undefined).to('next', async (c) => c.out.maybe satisfies undefined)
  const lists = machine('lists', { input: In, output: z.object({ files: z.array(z.string()) }) })
  const listing = lists
    .to('list', async (c) => ({ files: [c.input.key], of: c.id }))
    .to('next', async (c) => (c.out.list.of.length > 0 ? c.handoff(c.out.list) : undefined))
    .end((c) => c.out.list)
  createPod(config, { tasks: [listing] })
  // @ts-expect-error: a name that a timeline needs
  begun.to('end', async () => 1)
  // @ts-expect-error: an output is changed
  length.to('list', async () => ['a']).to('next', async (c) => c.out.list.push('b'))
  // @ts-expect-error: the same, deep within it
  length.to('deep', async () => ({ a: [{ b: 1 }] })).to('next', async (c) => (c.out.deep.a[0]!.b = 2))
  // @ts-expect-error: reads an output that comes later
  machine('later', image).to('a', async (c) => c.out.b)
  // @ts-expect-error: reads its own output
  machine('own', image).to('a', async (c) => ({ mine: c.out.a }))
  // @ts-expect-error: hands off what is not a result
  begun.check('wrong', async (c) => c.handoff({ dir: 1 }))
  // @ts-expect-error: the same, from a transition
  begun.to('wrong', async (c) => c.handoff({ dir: 'd' }))
  // @ts-expect-error: a Map is no JSON
  begun.to('map', async () => new Map([['a', 1]]))
  // @ts-expect-error: a Date is no JSON
  begun.to('date', async () => ({ at: new Date() }))
  // @ts-expect-error: a function is no JSON
  begun.to('function', async () => () => 1)
  // @ts-expect-error: ends with what is not its result
  begun.end((c) => ({ dir: c.out.unpack.dir }))
  // @ts-expect-error: an unfinished chain is enqueued
  await pod.enqueue({ machine: begun, input: { key: 'cat' } })
  // @ts-expect-error: an unfinished chain is given to a pod
  createPod(config, { tasks: [begun] })
  // @ts-expect-error: the wrong input
  await pod.enqueue({ machine: whole, input: { key: 1 } })
  // @ts-expect-error: no input
  await pod.enqueue({ machine: whole })
  // @ts-expect-error: a check that returns an output
  begun.check('gives', async () => 'a value')
  // @ts-expect-error: no such limit
  begun.to('limited', async () => 1, { tries: 3 })
}

test('a machine that cannot be run is refused where it is written', () => {
  const one = async () => 1
  const begun = machine('m', image).to('a', one)
  const at = (name: string) => begun.to(name as 'b', one)
  assert.throws(() => machine('with space', image), /machine with space: its name must match/)
  assert.throws(() => machine('m', { ...image, priority: 8 }), /priority must be from 0 to 7/)
  assert.throws(() => at('a'), /machine m, a: is already defined/)
  assert.throws(() => at('with space'), /machine m, with space: its name must match/)
  assert.throws(() => at('end'), /machine m, end: this is what a timeline calls its end/)
  assert.throws(
    () => begun.check('twice', async () => undefined).check('twice', async () => undefined),
    /twice: is already defined/,
  )
  for (const [limits, text] of [
    [{ timeout: 'soon' }, /m, b: timeout: must be a length of time/],
    [{ timeout: '2d' }, /m, b: timeout must be from 1ms to 1d/],
    [{ attempts: 0 }, /m, b: attempts must be from 1 to 1000/],
    [{ maxBytes: 262_145 }, /m, b: maxBytes must be from 1 to 262144/],
    [{ concurrency: 0 }, /m, b: concurrency must be from 1 to/],
  ] as const)
    assert.throws(() => begun.to('b', one, limits), text)
  const chain = (length: number) =>
    Array.from({ length }).reduce<typeof begun>((so, _, n) => so.to(`n${n}` as 'n', one), begun)
  assert.ok(chain(63))
  assert.throws(() => chain(64), /at most 64 transitions/)
})

test('a shape is the names of transitions in their order: no bodies, no limits, no checks', () => {
  const result = () => ({ dir: '', bytes: 0 })
  const shape = machine('m', image)
    .to('a', async () => 1)
    .to('b', async () => 2)
    .end(result)
  const same = machine('m', { ...image, queue: 'slow' })
    .to('a', async () => 'x', { attempts: 9 })
    .check('looks', async () => undefined)
    .to('b', async () => undefined)
    .end(result)
  const other = machine('m', image)
    .to('b', async () => 2)
    .to('a', async () => 1)
    .end(result)
  assert.match(shape.shape, /^[0-9a-f]{8}$/)
  assert.equal(same.shape, shape.shape)
  assert.notEqual(other.shape, shape.shape)
  assert.deepEqual([same.transitions, same.maxAttempts, other.maxAttempts], [['a', 'b'], 9, 5])
  assert.equal(task('plain', () => 1).shape, '')
})

/** What a passage did, in order: bodies with their keys, and records. */
function traced(checkHandsOff = false) {
  const did: unknown[] = []
  const step = (name: string, c: { key: string; out: object; attempt: number; resumed: boolean }) =>
    did.push([name, c.key.split('/')[1], Object.keys(c.out), c.attempt, c.resumed])
  const definition = machine('traced', image)
    .check('before', async (c) => void step('before', c))
    .to('a', async (c) => (step('a', c), { path: 'p' }))
    .check('between', async (c) => {
      step('between', c)
      return checkHandsOff ? c.handoff({ dir: 'there', bytes: 0 }) : undefined
    })
    .to('b', async (c) => (step('b', c), c.out.a.path.length))
    .to('c', async (c) => void step('c', c))
    .end((c) => ({ dir: c.out.a.path, bytes: c.out.b }))
  const record = async (entry: DoneTransition) => void did.push(entry.name)
  const run = (claim: Partial<typeof CLAIM>, more = {}) =>
    definition.open().run({ ...CLAIM, input: { key: 'k' }, ...claim }, around({ record, ...more }))
  return { did, run }
}
const LIVED = { value: { path: 'q' }, at: '2026-11-17T00:00:00.000Z', attempt: 1, ms: 1 }

test('a passage runs every step in order, and each transition begins when the one before is recorded', async () => {
  const { did, run } = traced()
  const last = { name: 'c', position: 3, value: 'null', ms: 0 }
  assert.deepEqual(await run({ attempt: 1, spent: 1 }), {
    type: 'done',
    result: '{"dir":"p","bytes":1}',
    last,
  })
  assert.deepEqual(did, [
    ['before', 'before', [], 1, false],
    ['a', 'a', [], 1, false],
    'a',
    ['between', 'between', ['a'], 1, false],
    ['b', 'b', ['a'], 1, false],
    'b',
    ['c', 'c', ['a', 'b'], 1, false],
  ])
})

test('a resume begins behind the last record, with the checks that stand there', async () => {
  const { did, run } = traced()
  const end = await run({ position: 1, carry: { a: LIVED } })
  assert.equal('result' in end && end.result, '{"dir":"q","bytes":1}')
  assert.deepEqual(did.slice(0, 3), [['between', 'between', ['a'], 2, true], ['b', 'b', ['a'], 2, true], 'b'])
})

test('a check that hands off ends the task with a result of its type; what is left does not run', async () => {
  const { did, run } = traced(true)
  const end = await run({ position: 1, carry: { a: LIVED } })
  assert.deepEqual(end, { type: 'done', result: '{"dir":"there","bytes":0}', via: 'handoff' })
  assert.deepEqual(did, [['between', 'between', ['a'], 2, true]])
})

test('a pod that drains, or does not trust itself, begins no further body', async () => {
  const ends = (did: readonly unknown[]): readonly Partial<Surroundings>[] => {
    const isOver = () => did.includes('a')
    const draining = {
      get aborted() {
        return isOver()
      },
    } as AbortSignal
    return [{ draining }, { isFenced: isOver }]
  }
  for (const way of [0, 1]) {
    const { did, run } = traced()
    assert.deepEqual(await run({}, ends(did)[way]), { type: 'back' })
    assert.equal(did.at(-1), 'a')
  }
})

test('a record that does not stand ends the attempt as it was answered', async () => {
  const { did, run } = traced()
  const fenced = { type: 'record', answer: 'fenced' } as const
  assert.deepEqual(await run({}, { record: async () => fenced }), fenced)
  assert.deepEqual(did.length, 2)
})

test('outputs are bounded one by one and in all, results by their schema: what does not fit is dead at once', async () => {
  const wide = 'x'.repeat(60_000)
  const of = (bytes: number, maxBytes?: number) =>
    machine('m', image).to('a', async () => 'x'.repeat(bytes), maxBytes === undefined ? {} : { maxBytes })
  const end = () => ({ dir: '', bytes: 0 })
  const wrong = machine('m', image)
    .to('a', async () => 1)
    .end(() => ({ dir: 1 }) as never)
  const full = machine('m', image)
    .to('a', async () => wide)
    .to('b', async () => wide)
    .to('c', async () => wide)
    .to('d', async () => wide)
    .to('e', async () => wide)
    .end(end)
  const ends = [of(70_000).end(end), of(10, 11).end(end), full, of(9, 11).end(end), wrong]
  const found = ends.map(async (one) => {
    const settled = await one.open().run({ ...CLAIM, input: { key: 'k' } }, around())
    const error = 'error' in settled ? (JSON.parse(settled.error) as Record<string, unknown>) : {}
    return [settled.type, error['code'], error['transition'], error['message']]
  })
  assert.deepEqual(await Promise.all(found), [
    ['dead', 'too_large', 'a', 'a: over 65536 bytes of JSON'],
    ['dead', 'too_large', 'a', 'a: over 11 bytes of JSON'],
    ['dead', 'too_large', 'e', 'e: over 22136 bytes of JSON'],
    ['done', undefined, undefined, undefined],
    ['dead', 'invalid', 'end', 'output.dir: Invalid input: expected string, received number'],
  ])
})

test('abort and hold end as they ask; attempts are those of the transition, or what the caller asked for', async () => {
  const broken = (body: () => never, attempts: number) =>
    machine('m', image)
      .to('a', async () => body(), { attempts })
      .to('b', async () => 1, { attempts: 3 })
      .end(() => ({ dir: '', bytes: 0 }))
  const fails = () => {
    throw new Error('no luck')
  }
  const ends = [
    [() => abort('never'), 2, {}],
    [() => abort('look', { kind: 'system' }), 2, {}],
    [() => hold('ask legal'), 2, {}],
    [fails, 2, { spent: 1, maxAttempts: 3 }],
    [fails, 2, { spent: 2, maxAttempts: 3 }],
    [fails, 2, { spent: 2, maxAttempts: 9 }], // as after a deploy that lowered another limit
    [fails, 3, { spent: 1, maxAttempts: 1 }],
    [fails, 2, { spent: 3, maxAttempts: 3 }],
  ] as const
  const found = ends.map(async ([body, attempts, claim]) => {
    const run = { ...CLAIM, input: { key: 'k' }, ...claim }
    const settled = await broken(body, attempts).open().run(run, around())
    return [settled.type, 'error' in settled && (JSON.parse(settled.error) as { code: string }).code]
  })
  assert.deepEqual(await Promise.all(found), [
    ['failed', 'aborted'],
    ['dead', 'aborted'],
    ['held', 'hold'],
    ['retry', 'failed'],
    ['dead', 'failed'],
    ['dead', 'failed'],
    ['dead', 'failed'],
    ['dead', 'attempts_used_up'],
  ])
})

test('a transition waits for its turn in the pod without a timeout; a pod that stops takes it out of the line', async () => {
  const clock = manualClock()
  const opened = Promise.withResolvers<void>()
  let inside = 0
  const narrow = machine('m', image)
    .to('a', async (c) => ((inside += 1), await Promise.race([opened.promise, aborted(c.signal)])), {
      concurrency: 1,
      timeout: '1s',
    })
    .end(() => ({ dir: '', bytes: 0 }))
  const runner = narrow.open()
  const run = (more = {}) => runner.run({ ...CLAIM, input: { key: 'k' } }, around({ clock, ...more }))
  const first = run()
  const second = run()
  const ending = new AbortController()
  const third = run({ ending })
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(inside, 1)
  ending.abort(new Error('drain'))
  assert.deepEqual(await third, { type: 'back' })
  await clock.advance(1_000)
  assert.equal((await first).type, 'retry', 'its time is over')
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(inside, 2)
  opened.resolve()
  assert.equal((await second).type, 'done', 'its time began when it did')
})

async function aborted(signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
}

test('slots are taken in order, and a slot given back goes to the first that waits', async () => {
  const slots = createSlots(1)
  const { signal } = new AbortController()
  const leave = await slots.take(signal)
  const order: number[] = []
  const later = [1, 2].map(async (n) => {
    const go = await slots.take(signal)
    order.push(n)
    return go
  })
  leave()
  leave()
  const sneaking = slots.take(signal).then(() => order.push(3))
  const next = await later[0]!
  assert.deepEqual(order, [1], 'one place was left, however often its holder said so')
  next()
  ;(await later[1]!)()
  await sneaking
  assert.deepEqual(order, [1, 2, 3])
  await assert.rejects(slots.take(AbortSignal.abort(new Error('over'))), /over/)
})

test('a task goes on in another shape where what it did stands first and what it had to do stands in its order', () => {
  const kept = (from: string, to: string) => findKeptPositions([...from], [...to])
  assert.deepEqual(kept('ab', 'ab'), [0, 1, 2])
  assert.deepEqual(kept('ab', 'axb'), [0, 1], 'one is added')
  assert.deepEqual(kept('ab', 'xab'), [0], 'in front: only who has not begun')
  assert.deepEqual(kept('abc', 'ac'), [], 'what is left to do is missing, or what was done')
  assert.deepEqual(kept('ab', 'ba'), [], 'in another order')
  assert.deepEqual(kept('ab', 'abc'), [0, 1, 2])
  assert.deepEqual(kept('aab', 'ab'), [], 'however often')
})

test('a timeline says of every transition what is known of it', () => {
  const names = ['a', 'b', 'c']
  const states = (state: TaskState, position: number, via: 'handoff' | null = null) =>
    timelineOf({ names, position, carry: null, state, via }).map((step) => step.state)
  assert.deepEqual(states('ready', 0), ['waiting', 'ahead', 'ahead'])
  assert.deepEqual(states('claimed', 1), ['done', 'running', 'ahead'])
  assert.deepEqual(states('held', 1), ['done', 'held', 'ahead'])
  assert.deepEqual(states('dead', 2), ['done', 'done', 'dead'])
  assert.deepEqual(states('dead', 3), ['done', 'done', 'done', 'dead'], 'its end is')
  assert.deepEqual(states('done', 3), ['done', 'done', 'done'])
  assert.deepEqual(states('done', 1, 'handoff'), ['done', 'skipped', 'skipped'])
  assert.deepEqual(states('failed', 1), ['done', 'failed', 'skipped'])
  const [plain] = timelineOf({ names: ['run'], position: 0, carry: null, state: 'done', via: null })
  assert.equal(plain!.state, 'done')
})
