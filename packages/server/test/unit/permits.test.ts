// Bodies that run under permits, and how much work a pod asks the queue for, on a manual clock.
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
const delayOf = (end: object) => 'delayMs' in end && end.delayMs

test('a body that gets no permit soon, or is refused, returns to the queue and spends no attempt', async () => {
  const { clock, settled, begin, permits, to } = podOf({ offer: { isLearnt: true, share: 4 } })
  const free = Promise.withResolvers<void>()
  const four = Array.from({ length: 4 }, () => begin(() => free.promise))
  await settled()
  assert.equal(to.standing().held, 4)
  assert.equal(permits.roomFor(KEY, 0), 0)
  let isSent = false
  const fifth = begin(() => (isSent = true))
  await settled()
  await clock.advance(2_000)
  const end = await fifth
  assert.equal(end.type, 'later')
  assert.equal(delayOf(end), 1_000)
  assert.equal(codeOf(end), 'rate_limited')
  assert.equal(isSent, false)
  free.resolve()
  assert.deepEqual(
    (await Promise.all(four)).map(({ type }) => type),
    ['done', 'done', 'done', 'done'],
  )
  const told = await begin(() => Promise.reject(refused(30)))
  assert.equal(told.type, 'later')
  assert.equal(delayOf(told), 30_000)
  assert.equal(codeOf(told), 'rate_limited')
  assert.equal(to.standing().held, 0)
  assert.equal(permits.roomFor(KEY, 0), 0, 'there is no room in a pause')
  await clock.advance(30_000)
  const room = permits.roomFor(KEY, 0)
  assert.ok(room > 0, `room for ${room}`)
})

test('T5: no permit is out after a throw, a timeout, an abort, a fence, or a drain during the wait', async () => {
  const { clock, settled, begin, to } = podOf()
  assert.equal((await begin(() => Promise.reject(new Error('mine')))).type, 'retry')
  const late = begin(never, {}, { timeout: '10s' })
  await settled()
  await clock.advance(10_000)
  await clock.advance(2_000) // the grace for a body that ignores its signal
  assert.equal((await late).type, 'retry')
  assert.equal(to.standing().held, 0)
  assert.equal(to.standing().limit, 1, 'a call that was silent until its timeout lowers the limit')

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
  assert.equal((await fenced).type, 'back')
  assert.equal(to.standing().held, 0)
  assert.equal(to.standing().waiting, 0)
  assert.equal(clock.sleepers, 0)
})

test('the timeout of a body does not include its wait for a permit, and a drain lets a body that was sent finish', async () => {
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

test('a refusal costs no attempt while the pod drains, either', async () => {
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
  assert.equal(late.type, 'later')
  assert.equal(codeOf(late), 'rate_limited')
})

test('after a refusal hold, abort and retryAfter still apply, and any other error waits as the provider asked', async () => {
  const decided: [() => never, string][] = [
    [() => hold('no credit'), 'held'],
    [() => abort('never'), 'failed'],
    [() => retryAfter('1h'), 'later'],
    [() => assert.fail('mine'), 'later'],
    [() => assert.fail(new Retry('rate_limited', 'another limit', { afterMs: 1_000 })), 'later'],
  ]
  for (const [end, type] of decided) {
    const { begin } = podOf()
    const settled = await begin(({ call }) => {
      call.response(429, { 'retry-after': '30' })
      end()
    })
    assert.equal(settled.type, type)
    if (type === 'later') {
      const isOwn = end === decided[2]![0]
      assert.equal(delayOf(settled), isOwn ? 3_600_000 : 30_000)
    }
  }
})

test('a transition may name another downstream than its machine, and a check calls none', async () => {
  const { clock, to, permits } = podOf()
  const other = downstreamsOn(clock)
  const held: unknown[] = []
  const look = async () =>
    void held.push({ own: to.standing().held, other: other.get('other').standing().held })
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
  assert.equal(runner.downstream, KEY, 'claims ask for the downstream of the machine')
  assert.equal((await runner.run(CLAIM, around({ clock, permits: both }))).type, 'done')
  assert.deepEqual(held, [
    { own: 0, other: 0 },
    { own: 1, other: 0 },
    { own: 0, other: 1 },
  ])
})

test('a downstream that is no key is rejected where the task is defined', () => {
  assert.throws(() => task('work', () => null, { downstream: 'No Key' }), /provider\/account\/model/)
})

test('in observe mode all rules run but nothing waits, and calls that would have waited are counted', async () => {
  const metrics = createMetrics()
  const { settled, begin, permits, to } = podOf({ throttle: 'observe', metrics })
  const free = Promise.withResolvers<void>()
  const six = Array.from({ length: 6 }, () => begin(() => free.promise))
  await settled()
  assert.equal(to.standing().held, 6)
  assert.equal(to.standing().limit, 8)
  assert.equal(permits.roomFor(KEY, 6), Infinity)
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
})

test('in off mode no rule runs', async () => {
  const off = podOf({ throttle: 'off' })
  assert.equal((await off.begin(() => Promise.reject(refused(30)))).type, 'retry')
  assert.equal(off.to.standing().limit, 1)
  assert.equal(off.permits.roomFor(KEY, 9), Infinity)
})

test('a pod asks for no more tasks of a group than its downstream has room for, and knows which groups came full', () => {
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

test('a pod that claimed as many tasks as it had room for wants more than it holds', async () => {
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
  assert.equal(want(true), 2.4, 'from 1, .7 of the way to one call in flight and a quarter of its share')
  const less = want(false)
  assert.ok(less < 2.4, `${less}`)
  assert.equal(wantOf({})(true), 2.4, 'while nothing is learnt, a quarter of its own limit counts')
})
