// Bodies under permits, and how much work a pod asks for, on a manual clock.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Retry } from '../../src/errors.ts'
import { machine, task, type TaskOptions } from '../../src/machine/definition.ts'
import { abort, hold, retryAfter } from '../../src/machine/outcomes.ts'
import { measureFill, planClaim } from '../../src/task/claim-plan.ts'
import type { Surroundings } from '../../src/task/runner.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import type { TaskContext } from '../../src/machine/context.ts'
import { manualClock } from '../support/clock.ts'
import { around, CLAIM } from '../support/machines.ts'
import { downstreamsOn } from '../support/throttle.ts'
import { z } from 'zod'

const KEY = 'provider/account'

function podOf(options: Parameters<typeof downstreamsOn>[1] = {}) {
  const clock = manualClock()
  const downstreams = downstreamsOn(clock, options)
  const settled = () => clock.advance(0).then(() => new Promise((resolve) => setImmediate(resolve)))
  const begin = (
    body: (c: TaskContext<unknown>) => unknown,
    more: Partial<Surroundings> = {},
    limits: TaskOptions<unknown, unknown> = {},
  ) => {
    const definition = task('work', async (c) => void (await body(c)), { downstream: KEY, ...limits })
    return definition.open().run(CLAIM, around({ clock, permits: downstreams.permits, ...more }))
  }
  return { clock, settled, begin, permits: downstreams.permits, to: downstreams.get(KEY) }
}

const never = () => new Promise(() => undefined)
const refused = (seconds: number) =>
  Object.assign(new Error('slow down'), { status: 429, headers: { 'retry-after': String(seconds) } })
const codeOf = (end: object) =>
  'error' in end && (JSON.parse(end.error as string) as { readonly code: string }).code

test('a body runs under a permit; without one soon, or refused, it goes back to the queue and nothing is spent', async () => {
  const { clock, settled, begin, permits, to } = podOf({ offer: { isLearnt: true, share: 4 } })
  const free = Promise.withResolvers<void>()
  const four = Array.from({ length: 4 }, () => begin(() => free.promise))
  await settled()
  assert.deepEqual([to.standing().held, permits.roomFor(KEY, 0)], [4, 0])
  let isSent = false
  const fifth = begin(() => (isSent = true))
  await settled()
  await clock.advance(2_000)
  const end = await fifth
  assert.deepEqual([end.type, 'delayMs' in end && end.delayMs, codeOf(end)], ['later', 1_000, 'rate_limited'])
  assert.equal(isSent, false)
  free.resolve()
  assert.deepEqual(
    (await Promise.all(four)).map(({ type }) => type),
    ['done', 'done', 'done', 'done'],
  )
  const told = await begin(() => Promise.reject(refused(30)))
  assert.deepEqual(
    [told.type, 'delayMs' in told && told.delayMs, codeOf(told)],
    ['later', 30_000, 'rate_limited'],
  )
  assert.deepEqual([to.standing().held, permits.roomFor(KEY, 0)], [0, 0], 'no room in a pause')
  await clock.advance(30_000)
  assert.ok(permits.roomFor(KEY, 0) > 0)
})

test('T5: no permit is out after a throw, a timeout, an abort, a fence, or a drain while it waits', async () => {
  const { clock, settled, begin, to } = podOf()
  assert.equal((await begin(() => Promise.reject(new Error('mine')))).type, 'retry')
  const late = begin(never, {}, { timeout: '10s' })
  await settled()
  await clock.advance(10_000)
  await clock.advance(2_000) // its grace
  assert.equal((await late).type, 'retry')
  assert.deepEqual(
    [to.standing().held, to.standing().limit],
    [0, 1],
    'silent until its time was over: it teaches',
  )

  const spoken = begin(({ call }) => (call.firstToken(), never()), {}, { timeout: '10s' })
  const ending = new AbortController()
  await settled()
  const draining = new AbortController()
  const waits = begin(() => assert.fail('sent'), { draining: draining.signal })
  await settled()
  assert.equal(to.standing().waiting, 1)
  draining.abort(new Error('drain'))
  assert.equal((await waits).type, 'back')
  await clock.advance(10_000)
  await clock.advance(2_000)
  assert.equal((await spoken).type, 'retry')

  const fenced = begin(never, { ending })
  await settled()
  assert.equal(to.standing().held, 1)
  ending.abort(new Error('fenced'))
  await settled()
  await clock.advance(2_000)
  assert.deepEqual([(await fenced).type, to.standing().held, to.standing().waiting], ['back', 0, 0])
  assert.equal(clock.sleepers, 0)
})

test('the wait for a permit is no part of a body’s time; a drain lets a body that was sent go on', async () => {
  const { clock, settled, begin } = podOf({ offer: { isLearnt: true, share: 1 } })
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const draining = new AbortController()
  const holds = begin(() => first.promise, { draining: draining.signal })
  const waits = begin(() => second.promise, {}, { timeout: '1s' })
  await settled()
  await clock.advance(1_500)
  draining.abort(new Error('drain'))
  first.resolve()
  assert.equal((await holds).type, 'done')
  await settled()
  await clock.advance(900)
  second.resolve()
  assert.equal((await waits).type, 'done')
})

test('a refusal costs no attempt while the pod drains, either; what the body decides by itself holds beside one', async () => {
  const { begin } = podOf()
  const draining = new AbortController()
  const late = await begin(
    () => {
      draining.abort(new Error('drain'))
      throw refused(1)
    },
    { draining: draining.signal },
    { attempts: 1 },
  )
  assert.deepEqual([late.type, codeOf(late)], ['later', 'rate_limited'])
  const decided: [() => never, string][] = [
    [() => hold('no credit'), 'held'],
    [() => abort('never'), 'failed'],
    [() => retryAfter('1h'), 'later'],
    [() => assert.fail('mine'), 'later'],
    [() => assert.fail(new Retry('rate_limited', 'another limit', { afterMs: 1_000 })), 'later'],
  ]
  for (const [end, type] of decided) {
    const { begin: beginAnew } = podOf()
    const settled = await beginAnew(({ call }) => {
      call.response(429, { 'retry-after': '30' })
      end()
    })
    assert.equal(settled.type, type)
    if (type === 'later') {
      const isOwn = end === decided[2]![0]
      assert.equal('delayMs' in settled && settled.delayMs, isOwn ? 3_600_000 : 30_000)
    }
  }
})

test('a transition may name another downstream; a check calls none, and claims ask for the machine’s', async () => {
  const { clock, to, permits } = podOf()
  const other = downstreamsOn(clock)
  const held: unknown[] = []
  const look = async () => void held.push([to.standing().held, other.get('other').standing().held])
  const both = {
    ...permits,
    run: ((key, ...rest) => (key === KEY ? permits : other.permits).run(key, ...rest)) as typeof permits.run,
  }
  const definition = machine('two', { input: z.unknown(), output: z.null(), downstream: KEY })
    .check('before', look)
    .to('one', look)
    .to('two', look, { downstream: 'other' })
    .end(() => null)
  const runner = definition.open()
  assert.equal(runner.downstream, KEY)
  assert.equal((await runner.run(CLAIM, around({ clock, permits: both }))).type, 'done')
  assert.deepEqual(held, [
    [0, 0],
    [1, 0],
    [0, 1],
  ])
  assert.throws(() => task('work', () => null, { downstream: 'No Key' }), /provider\/account\/model/)
})

test('observe: every rule runs, nothing waits, and what would have is counted; off: nothing runs at all', async () => {
  const metrics = createMetrics()
  const { settled, begin, permits, to } = podOf({ throttle: 'observe', metrics })
  const free = Promise.withResolvers<void>()
  const six = Array.from({ length: 6 }, () => begin(() => free.promise))
  await settled()
  assert.deepEqual([to.standing().held, to.standing().limit, permits.roomFor(KEY, 6)], [6, 8, Infinity])
  await begin(() => Promise.reject(refused(30)))
  assert.ok(to.standing().pausedUntil)
  assert.equal((await begin(() => undefined)).type, 'done', 'inside a pause')
  free.resolve()
  await Promise.all(six)
  const text = await metrics.text()
  assert.match(text, /fleetline_permits_total\{downstream="provider\/account",outcome="would_wait"\} 1/)
  assert.match(
    text,
    /fleetline_downstream_responses_total\{downstream="provider\/account",class="refused"\} 1/,
  )
  assert.match(text, /fleetline_downstream_cuts_total\{downstream="provider\/account",reason="refused"\} 1/)
  assert.match(text, /fleetline_downstream_in_flight\{downstream="provider\/account"\} 0/)

  const off = podOf({ throttle: 'off' })
  assert.equal((await off.begin(() => Promise.reject(refused(30)))).type, 'retry')
  assert.deepEqual([off.to.standing().limit, off.permits.roomFor(KEY, 9)], [1, Infinity])
})

test('a pod asks for no more of a group than its downstream has room for, and knows which came full', () => {
  const runners = new Map([
    [1, {}],
    [2, { downstream: 'a' }],
    [3, { downstream: 'b' }],
    [4, { downstream: 'a' }],
  ])
  const rooms: Record<string, number> = { a: 3, b: 0 }
  const { asks, isWhole } = planClaim(runners, 10, (key) => rooms[key]!)
  assert.equal(isWhole, false)
  assert.deepEqual(asks, [
    { track: 1, group: 0, room: 10 },
    { track: 2, group: 1, room: 3 },
    { track: 4, group: 1, room: 3 },
  ])
  const claims = [2, 4, 4, 1].map((track) => ({ ...CLAIM, track }))
  assert.deepEqual(measureFill(asks, claims), [
    { track: 1, room: 10, isFull: false },
    { track: 2, room: 3, isFull: true },
  ])
})

test('who has claimed as much as it had room for wants more than it holds', async () => {
  const clock = manualClock()
  const { signal } = new AbortController()
  const wantOf = (offer: object) => {
    const { permits, inUse } = downstreamsOn(clock, { offer })
    void permits.run(KEY, never, { maxWaitMs: 0, deadlineMs: 1_000, signal, waitSignal: signal })
    return (hasMore: boolean) => {
      permits.claimed(KEY, hasMore)
      return inUse().get(KEY)!.takeReport().load.want
    }
  }
  const want = wantOf({ isLearnt: true, share: 8 })
  assert.equal(want(true), 2.4, '1, then .7 of the way to one in flight and a quarter of its share')
  assert.ok(want(false) < 2.4)
  assert.equal(wantOf({})(true), 2.4, 'while nothing is learnt, a quarter of its own limit')
})
