// Machines as values and as types: what compiles, which definitions are rejected, and how a machine runs.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TaskState } from '@fleetline/protocol'
import { z } from 'zod'
import type { Config } from '../../src/config.ts'
import { createSlots } from '../../src/lib/waiters.ts'
import { findKeptPositions } from '../../src/machine/shape-fit.ts'
import type { Json } from '../../src/machine/context.ts'
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

interface Folder {
  path: string
  owner?: string
  files: { name: string; bytes: number }[]
}
interface Dated {
  path: string
  at: Date
}

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
  // @ts-expect-error: an output of undefined is read as null
  length.to('maybe', async () => undefined).to('next', async (c) => c.out.maybe satisfies undefined)
  const lists = machine('lists', { input: In, output: z.object({ files: z.array(z.string()) }) })
  const listing = lists
    .to('list', async (c) => ({ files: [c.input.key], of: c.id }))
    .to('next', async (c) => (c.out.list.of.length > 0 ? c.handoff(c.out.list) : undefined))
    .end((c) => c.out.list)
  createPod(config, { tasks: [listing] })
  const folder: Folder = { path: 'p', files: [] }
  const folders = lists
    .to('folder', () => folder)
    .check('waits.for.nothing', () => undefined)
    .to('all', async (): Promise<Folder[]> => [folder])
    .end((c) => ({ files: c.out.folder.files.map(({ name }) => `${name} of ${c.out.all.length}`) }))
  const asked: Machine<unknown, Folder> = task('folder', (): Folder => folder)
  createPod(config, { tasks: [folders, asked] })
  const text: Json = JSON.parse('1') as Json
  const loose = () => JSON.parse('{}') // any: the compiler cannot check it
  const wide = lists
    .to('id', (c) => c.id)
    .to('json', () => text)
    .to('either', (c) => (c.attempt > 1 ? 'x' : 3))
    .to('union', async (c): Promise<Folder | string | null> => (c.attempt > 1 ? folder : null))
    .to('any', async () => ({ n: loose(), id: anyName }))
    .end((c) => ({ files: [c.out.id, `${c.out.either satisfies string | number}`] }))
  const generic = <R extends Json>(handler: () => R) => task('generic', handler)
  const tasks = [wide, generic(() => 1), task('id', (c) => c.id), task('json', () => text)]
  createPod(config, { tasks })
  machine('any', { input: In, output: z.object({ a: z.any() }) })
  // @ts-expect-error: a field that is a function
  begun.to('method', () => ({ run: () => 1 }))
  // @ts-expect-error: a field that is a bigint
  begun.to('big', () => ({ n: 1n }))
  // @ts-expect-error: a field of type unknown
  begun.to('unknown', () => ({ n: loose() as unknown }))
  // @ts-expect-error: an interface with a Date
  begun.to('dated', (): Dated => ({ path: 'p', at: new Date() }))
  // @ts-expect-error: the same, in a list
  task('dated', async (): Promise<Dated[]> => [])
  // @ts-expect-error: a name that is reserved for timelines
  begun.to('end', async () => 1)
  // @ts-expect-error: an output is changed
  length.to('list', async () => ['a']).to('next', async (c) => c.out.list.push('b'))
  // @ts-expect-error: the same, deep within it
  length.to('deep', async () => ({ a: [{ b: 1 }] })).to('next', async (c) => (c.out.deep.a[0]!.b = 2))
  // @ts-expect-error: reads an output that comes later
  machine('later', image).to('a', async (c) => c.out.b)
  // @ts-expect-error: reads its own output
  machine('own', image).to('a', async (c) => ({ mine: c.out.a }))
  // @ts-expect-error: hands off a value that is not a result
  begun.check('wrong', async (c) => c.handoff({ dir: 1 }))
  // @ts-expect-error: the same, from a transition
  begun.to('wrong', async (c) => c.handoff({ dir: 'd' }))
  // @ts-expect-error: a Map is no JSON
  begun.to('map', async () => new Map([['a', 1]]))
  // @ts-expect-error: a Date is no JSON
  begun.to('date', async () => ({ at: new Date() }))
  // @ts-expect-error: a function is no JSON
  begun.to('function', async () => () => 1)
  // @ts-expect-error: ends with a value that is not its result
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

test('a machine that cannot run is rejected where it is defined', () => {
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

test('a shape is the names of the transitions in order, without bodies, limits and checks', () => {
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
  assert.deepEqual(same.transitions, ['a', 'b'])
  assert.equal(same.maxAttempts, 9)
  assert.equal(other.maxAttempts, 5)
  assert.equal(task('plain', () => 1).shape, '')
})

type SeenContext = { key: string; out: object; attempt: number; resumed: boolean }

/** What a run did, in order: each body with its context, and the name of each recorded transition. */
function traced(checkHandsOff = false) {
  const did: unknown[] = []
  const step = (body: string, { key, out, attempt, resumed }: SeenContext) =>
    did.push({ body, key: key.split('/')[1], outs: Object.keys(out), attempt, resumed })
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

test('a run takes every step in order, and a transition begins once the one before is recorded', async () => {
  const { did, run } = traced()
  const last = { name: 'c', position: 3, value: 'null', ms: 0 }
  assert.deepEqual(await run({ attempt: 1, spent: 1 }), {
    type: 'done',
    result: '{"dir":"p","bytes":1}',
    last,
  })
  const fresh = { attempt: 1, resumed: false }
  assert.deepEqual(did, [
    { body: 'before', key: 'before', outs: [], ...fresh },
    { body: 'a', key: 'a', outs: [], ...fresh },
    'a',
    { body: 'between', key: 'between', outs: ['a'], ...fresh },
    { body: 'b', key: 'b', outs: ['a'], ...fresh },
    'b',
    { body: 'c', key: 'c', outs: ['a', 'b'], ...fresh },
  ])
})

test('a resumed run begins after the last recorded transition, with the checks that follow it', async () => {
  const { did, run } = traced()
  const end = await run({ position: 1, carry: { a: LIVED } })
  assert.equal('result' in end && end.result, '{"dir":"q","bytes":1}')
  assert.deepEqual(did.slice(0, 3), [
    { body: 'between', key: 'between', outs: ['a'], attempt: 2, resumed: true },
    { body: 'b', key: 'b', outs: ['a'], attempt: 2, resumed: true },
    'b',
  ])
})

test('a check that hands off ends the task with its result, and the remaining steps do not run', async () => {
  const { did, run } = traced(true)
  const end = await run({ position: 1, carry: { a: LIVED } })
  assert.deepEqual(end, { type: 'done', result: '{"dir":"there","bytes":0}', via: 'handoff' })
  assert.deepEqual(did, [{ body: 'between', key: 'between', outs: ['a'], attempt: 2, resumed: true }])
})

test('bodies may be synchronous, and what they throw ends the attempt as if they were not', async () => {
  const of = (body: () => string) =>
    machine('m', image)
      .check('looks', () => undefined)
      .to('a', body)
      .end((c) => ({ dir: c.out.a, bytes: 0 }))
  const run = (body: () => string) =>
    of(body)
      .open()
      .run({ ...CLAIM, input: { key: 'k' } }, around())
  const done = await run(() => 'p')
  assert.equal('result' in done && done.result, '{"dir":"p","bytes":0}')
  const failed = await run(() => {
    throw new Error('out of paper')
  })
  assert.equal(failed.type, 'retry')
  assert.match('error' in failed ? failed.error : '', /out of paper/)
})

test('a pod that drains, or is fenced, begins no further body', async () => {
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

test('a record that is not accepted ends the attempt with the answer to it', async () => {
  const { did, run } = traced()
  const fenced = { type: 'record', answer: 'fenced' } as const
  assert.deepEqual(await run({}, { record: async () => fenced }), fenced)
  assert.equal(did.length, 2)
})

test('a task is dead at once if an output, or all of them, are too large, or if its result breaks its schema', async () => {
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
    const { code, transition, message } = error
    return { type: settled.type, code, transition, message }
  })
  const tooLarge = { type: 'dead', code: 'too_large' }
  assert.deepEqual(await Promise.all(found), [
    { ...tooLarge, transition: 'a', message: 'a: over 65536 bytes of JSON' },
    { ...tooLarge, transition: 'a', message: 'a: over 11 bytes of JSON' },
    { ...tooLarge, transition: 'e', message: 'e: over 22136 bytes of JSON' },
    { type: 'done', code: undefined, transition: undefined, message: undefined },
    {
      type: 'dead',
      code: 'invalid',
      transition: 'end',
      message: 'output.dir: Invalid input: expected string, received number',
    },
  ])
})

test('abort and hold end as declared, and the attempts are those of the transition or those that the caller set', async () => {
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
    [fails, 2, { spent: 2, maxAttempts: 9 }], // as after a deploy that lowered the attempts of another step
    [fails, 3, { spent: 1, maxAttempts: 1 }],
    [fails, 2, { spent: 3, maxAttempts: 3 }],
  ] as const
  const found = ends.map(async ([body, attempts, claim]) => {
    const run = { ...CLAIM, input: { key: 'k' }, ...claim }
    const settled = await broken(body, attempts).open().run(run, around())
    const code = 'error' in settled && (JSON.parse(settled.error) as { code: string }).code
    return { type: settled.type, code }
  })
  assert.deepEqual(await Promise.all(found), [
    { type: 'failed', code: 'aborted' },
    { type: 'dead', code: 'aborted' },
    { type: 'held', code: 'hold' },
    { type: 'retry', code: 'failed' },
    { type: 'dead', code: 'failed' },
    { type: 'dead', code: 'failed' },
    { type: 'dead', code: 'failed' },
    { type: 'dead', code: 'attempts_used_up' },
  ])
})

test('the timeout of a transition does not include its wait for a slot, and a pod that stops ends the wait', async () => {
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
  assert.equal((await second).type, 'done', 'its time began when its body began')
})

async function aborted(signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
}

test('slots are taken in order, and a slot that is given back goes to the first waiter', async () => {
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
  assert.deepEqual(order, [1], 'one slot is free, however often its holder gives it back')
  next()
  ;(await later[1]!)()
  await sneaking
  assert.deepEqual(order, [1, 2, 3])
  await assert.rejects(slots.take(AbortSignal.abort(new Error('over'))), /over/)
})

test('a task continues in a shape that begins with its finished transitions and has the others in the same order', () => {
  const kept = (from: string, to: string) => findKeptPositions([...from], [...to])
  assert.deepEqual(kept('ab', 'ab'), [0, 1, 2])
  assert.deepEqual(kept('ab', 'axb'), [0, 1], 'one transition is added')
  assert.deepEqual(kept('ab', 'xab'), [0], 'one is added in front: only a task that has not begun continues')
  assert.deepEqual(kept('abc', 'ac'), [], 'a finished or a remaining transition is missing')
  assert.deepEqual(kept('ab', 'ba'), [], 'the order is another')
  assert.deepEqual(kept('ab', 'abc'), [0, 1, 2])
  assert.deepEqual(kept('aab', 'ab'), [], 'each name counts as often as it appears')
})

test('a timeline shows the state of every transition', () => {
  const names = ['a', 'b', 'c']
  const states = (state: TaskState, position: number, via: 'handoff' | null = null) =>
    timelineOf({ names, position, carry: null, state, via }).map((step) => step.state)
  assert.deepEqual(states('ready', 0), ['waiting', 'ahead', 'ahead'])
  assert.deepEqual(states('claimed', 1), ['done', 'running', 'ahead'])
  assert.deepEqual(states('held', 1), ['done', 'held', 'ahead'])
  assert.deepEqual(states('dead', 2), ['done', 'done', 'dead'])
  assert.deepEqual(states('dead', 3), ['done', 'done', 'done', 'dead'], 'its end is dead')
  assert.deepEqual(states('done', 3), ['done', 'done', 'done'])
  assert.deepEqual(states('done', 1, 'handoff'), ['done', 'skipped', 'skipped'])
  assert.deepEqual(states('failed', 1), ['done', 'failed', 'skipped'])
  const [plain] = timelineOf({ names: ['run'], position: 0, carry: null, state: 'done', via: null })
  assert.equal(plain!.state, 'done')
})
