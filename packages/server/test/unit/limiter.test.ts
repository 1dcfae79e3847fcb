import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Rejected, Retry } from '../../src/errors.ts'
import type { Call } from '../../src/task/runner.ts'
import type { DownstreamOptions } from '../../src/throttle/definition.ts'
import { manualClock } from '../support/clock.ts'
import { downstreamsOn } from '../support/throttle.ts'

const KEY = 'provider/account'

function downstream(options?: DownstreamOptions) {
  const clock = manualClock()
  const downstreams = downstreamsOn(clock)
  const to = downstreams.get(KEY, options)
  const settled = () => clock.advance(0).then(() => new Promise((resolve) => setImmediate(resolve)))
  return { clock, to, settled, permits: downstreams.permits }
}

/** A body that ends when the test ends it. */
function held() {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let call: Call | undefined
  const body = (given: Call) => {
    call = given
    return promise
  }
  return { body, done: () => resolve('done'), fail: reject, call: () => call }
}

const refused = (waitMs?: number) =>
  Object.assign(new Error('429'), {
    status: 429,
    headers: waitMs ? { 'retry-after-ms': String(waitMs) } : {},
  })

test('calls up to the limit are sent, and the others wait for a permit in order', async () => {
  const { clock, to, settled } = downstream({ maxPerPod: 4 })
  const calls = Array.from({ length: 7 }, held)
  const runs = calls.map((one) => to.run(one.body))
  await settled()
  assert.deepEqual(to.standing(), {
    limit: 4,
    share: 4,
    gen: 1,
    held: 4,
    waiting: 3,
    pausedUntil: undefined,
  })
  calls[1]!.fail(new Error('mine'))
  await assert.rejects(runs[1]!, { message: 'mine' })
  await settled()
  assert.deepEqual(
    calls.map((one) => one.call() !== undefined),
    [true, true, true, true, true, false, false],
  )
  for (const one of calls) one.done()
  await Promise.allSettled(runs)
  await settled()
  assert.equal(to.standing().held, 0)
  assert.equal(to.standing().waiting, 0)
  assert.equal(clock.sleepers, 0)
})

test('T5: a permit comes back once after a return, a throw, an abort, a deadline, and a throw before any await', async () => {
  const { clock, to, settled } = downstream({ deadline: '10s' })
  const stop = new AbortController()
  const [returned, thrown, aborted, late] = [held(), held(), held(), held()]
  const runs = [
    to.run(returned.body),
    to.run(thrown.body),
    to.run(aborted.body, { signal: stop.signal }),
    to.run(late.body),
  ]
  runs.forEach((run) => run.catch(() => undefined))
  await settled()
  returned.done()
  thrown.fail(new Error('mine'))
  stop.abort(new Error('mine, too'))
  assert.equal(aborted.call()!.signal.aborted, true)
  aborted.fail(stop.signal.reason)
  await clock.advance(10_000)
  await assert.rejects(runs[3]!, /longer than 10000 ms/)
  assert.equal(late.call()!.signal.aborted, true)
  late.done() // a result after the deadline changes nothing
  await Promise.allSettled(runs)
  const now = () => {
    throw new Error('at once')
  }
  await assert.rejects(to.run(now), { message: 'at once' })
  await settled()
  assert.equal(to.standing().held, 0, 'no permit is out')
  assert.equal(clock.sleepers, 0, 'no timer is left')
  assert.equal(to.standing().limit, 1, 'a call that was silent until its deadline lowers the limit')
})

test('an answer that is still arriving at its deadline does not change the limit', async () => {
  const { clock, to, settled } = downstream({ deadline: '10s' })
  const long = held()
  const run = to.run(long.body)
  run.catch(() => undefined)
  await settled()
  long.call()!.firstToken()
  await clock.advance(10_000)
  await assert.rejects(run)
  assert.equal(to.standing().limit, 8)
})

test('T3: a woken caller is checked again, so no call is sent inside a Retry-After', async () => {
  const { clock, to, settled } = downstream({ maxPerPod: 1 })
  const first = held()
  const run = to.run(first.body)
  await settled()
  const starts: { readonly who: number; readonly atMs: number }[] = []
  const go = (who: number) => to.run(async () => void starts.push({ who, atMs: clock.monotonicMs() }))
  const newcomer = clock.sleep(3_000).then(() => go(3)) // at the end of the pause, before anybody is woken
  const waiting = [1, 2].map(go)
  first.fail(refused(3_000))
  await assert.rejects(run)
  await clock.advance(2_999)
  assert.deepEqual(starts, [])
  assert.equal(to.standing().waiting, 2)
  assert.equal(to.standing().pausedUntil?.getTime(), clock.now() + 1)
  await clock.advance(1)
  await Promise.all([...waiting, newcomer])
  assert.deepEqual(
    starts,
    [1, 2, 3].map((who) => ({ who, atMs: 3_000 })),
    'in order of arrival',
  )
})

test('without a permit in time nothing is sent, and the error says when to try again', async () => {
  const { clock, to, settled } = downstream({ maxPerPod: 1, maxWait: '2s' })
  const first = held()
  const run = to.run(first.body)
  const second = held()
  const waiter = to.run(second.body)
  waiter.catch(() => undefined)
  await settled()
  await clock.advance(2_000)
  await assert.rejects(waiter, (error) => {
    assert.ok(error instanceof Retry, String(error))
    assert.equal(error.code, 'rate_limited')
    assert.equal(error.fields['key'], KEY)
    assert.equal(error.at?.getTime(), clock.now() + 1_000)
    assert.match(error.message, /provider\/account: no permit within 2000 ms; nothing was sent/)
    return true
  })
  const stop = new AbortController()
  const stopped = to.run(second.body, { signal: stop.signal })
  stop.abort(new Error('changed my mind'))
  await assert.rejects(stopped, { message: 'changed my mind' })
  await assert.rejects(to.run(second.body, { signal: stop.signal }), { message: 'changed my mind' })
  assert.equal(second.call(), undefined)
  first.done()
  await run
  assert.equal(to.standing().held, 0)
  assert.equal(to.standing().waiting, 0)
})

test('a pause is kept however long nobody calls, and a key in use takes no new options', async () => {
  const clock = manualClock()
  const downstreams = downstreamsOn(clock)
  const to = downstreams.get(KEY)
  await assert.rejects(to.run(() => Promise.reject(refused(3_600_000))))
  await clock.advance(3_000_000)
  assert.equal(downstreams.inUse().size, 1)
  await assert.rejects(
    to.run(async () => assert.fail('sent')),
    /pauses for longer; nothing was sent/,
  )
  assert.throws(() => downstreams.get(KEY, { mode: 'off' }), /is in use/)
  await clock.advance(600_001)
  assert.equal(downstreams.inUse().size, 0)
})

test('a refusal that is thrown counts even if another status was reported before', async () => {
  const { to } = downstream()
  const twice = to.run(async (call) => {
    call.response(404)
    throw refused()
  })
  await assert.rejects(twice)
  assert.equal(to.standing().limit, 1)
})

test('a caller that gives up inside a pause leaves no timer behind', async () => {
  const { clock, to, settled } = downstream({ maxWait: '2s', maxPerPod: 1 })
  const first = held()
  const run = to.run(first.body)
  await settled()
  const waiter = to.run(async () => assert.fail('sent'))
  waiter.catch(() => undefined)
  await settled()
  first.fail(refused(600_000))
  await assert.rejects(run)
  await clock.advance(2_000)
  await assert.rejects(waiter, /no permit/)
  assert.equal(clock.sleepers, 0)
})

test('a refusal that the body only reports counts like one that it throws', async () => {
  const { to } = downstream()
  const told = await to.run(async (call) => {
    call.response(429, new Headers({ 'retry-after': '0' }))
    return 'told'
  })
  assert.equal(told, 'told')
  assert.equal(to.standing().limit, 1)
})

test('a call that its caller cancels does not count as refused', async () => {
  const { to } = downstream()
  const stop = new AbortController()
  const cancelled = to.run(
    async () => {
      stop.abort(refused())
      throw stop.signal.reason as Error
    },
    { signal: stop.signal },
  )
  await assert.rejects(cancelled)
  assert.equal(to.standing().limit, 8)
})

test('a key and its options are validated, and options are set once', () => {
  const downstreams = downstreamsOn(manualClock())
  for (const key of ['', 'UPPER', 'a//b', 'a/b/c/d/e', '/a', 'a b', `a${'b'.repeat(128)}`])
    assert.throws(() => downstreams.get(key), Rejected, key)
  for (const options of [{ maxPerPod: 0 }, { maxPerPod: 1.5 }, { maxWait: 'soon' }, { deadline: '0s' }])
    assert.throws(() => downstreams.get(KEY, options), /^Rejected: provider\/account: /)
  for (const options of [{ maxWait: '25h' }, { deadline: '30d' }])
    assert.throws(() => downstreams.get(KEY, options), /must be a day at most/)
  downstreams.get(KEY, { maxPerPod: 3 })
  downstreams.get(KEY)
  downstreams.get(KEY, { maxPerPod: 3 })
  assert.throws(() => downstreams.get(KEY, { maxPerPod: 4 }), /has other options already/)
})

test('the options of a key apply to callers that had it before', async () => {
  const { clock, settled } = downstream()
  const downstreams = downstreamsOn(clock)
  const early = downstreams.get(KEY)
  downstreams.get(KEY, { maxPerPod: 1, maxWait: '5ms' })
  void early.run(() => new Promise(() => undefined))
  const waits = assert.rejects(
    early.run(async () => assert.fail('sent')),
    /no permit within 5 ms/,
  )
  await settled()
  await clock.advance(5)
  await waits
})

test('a caller may wait for a day at most', async () => {
  const { to } = downstream()
  const tooLong = to.run(async () => assert.fail('sent'), { maxWait: '25h' })
  await assert.rejects(tooLong, /maxWait: must be a day at most/)
})

test('a task from the queue waits for a permit if it can go next; the others are asked to return one after another', async () => {
  const clock = manualClock()
  const downstreams = downstreamsOn(clock, { offer: { isLearnt: true, share: 2 } })
  const { signal } = new AbortController()
  const limits = { maxWaitMs: 2_000, deadlineMs: 60_000, signal, waitSignal: signal }
  const ask = () => downstreams.permits.run(KEY, () => new Promise(() => undefined), limits)
  for (let n = 0; n < 4; n += 1) ask().catch(() => undefined)
  const { held: out, waiting } = downstreams.get(KEY).standing()
  assert.equal(out, 2)
  assert.equal(waiting, 2)
  assert.equal(downstreams.permits.roomFor(KEY, 0), 0)
  const again: number[] = []
  const turnedAway = (error: unknown) => {
    assert.ok(error instanceof Retry, String(error))
    assert.match(error.message, /2 calls wait already; nothing was sent/)
    again.push(error.at!.getTime() - clock.now())
    return true
  }
  for (let n = 0; n < 80; n += 1) await assert.rejects(ask(), turnedAway)
  assert.deepEqual(again.slice(0, 4), [1_000, 1_500, 2_000, 2_500])
  assert.equal(again.at(-1), 31_000)
  const other = downstreams.get(KEY).run(async () => undefined)
  other.catch(() => undefined)
  await clock.advance(0)
  assert.equal(downstreams.get(KEY).standing().waiting, 3, 'a caller outside the queue may wait')
})

test('callers outside the queue neither shut out a task nor keep the pod from claiming one', async () => {
  const clock = manualClock()
  const downstreams = downstreamsOn(clock, { offer: { isLearnt: true, share: 2 } })
  const { signal } = new AbortController()
  const limits = { maxWaitMs: 2_000, deadlineMs: 60_000, signal, waitSignal: signal }
  const order: string[] = []
  const call = (who: string) => async () => {
    order.push(who)
    await clock.sleep(100)
  }
  for (let n = 0; n < 6; n += 1) void downstreams.get(KEY).run(call('own'))
  await clock.advance(0)
  const { permits } = downstreams
  assert.equal(permits.roomFor(KEY, 0), 1, 'there is room for one task, behind the others')
  assert.equal(permits.roomFor(KEY, 1), 0, 'there is no room for a second task')
  const queued = permits.run(KEY, call('queued'), limits)
  await clock.advance(0)
  assert.equal(permits.roomFor(KEY, 0), 0)
  for (let n = 0; n < 6; n += 1) void downstreams.get(KEY).run(call('own'))
  await clock.advance(1_000)
  await queued
  assert.equal(order.indexOf('queued'), 6)
  assert.equal(order.length, 13)
  for (let n = 0; n < 3; n += 1) {
    for (let more = 0; more < 3; more += 1) void downstreams.get(KEY).run(call('own'))
    const again = permits.run(KEY, call('queued'), limits)
    await clock.advance(0)
    await clock.advance(1_000)
    await again
  }
  const none = downstreamsOn(clock, { offer: { isLearnt: true, share: 0 } })
  none
    .get(KEY)
    .run(call('own'))
    .catch(() => undefined)
  await clock.advance(0)
  assert.equal(none.get(KEY).standing().waiting, 1)
  assert.equal(none.permits.roomFor(KEY, 0), 0, 'without a share there is no room')
})

test('T5: a permit comes back from a call whose error cannot be read', async () => {
  const { to } = downstream()
  const { proxy, revoke } = Proxy.revocable(new Error('gone'), {})
  revoke()
  await to.run(() => Promise.reject(proxy)).catch(() => undefined)
  assert.equal(to.standing().held, 0)
})

test('a rejection by another limiter changes nothing', async () => {
  const downstreams = downstreamsOn(manualClock())
  const [outer, inner] = [downstreams.get('outer'), downstreams.get('inner')]
  await assert.rejects(inner.run(() => Promise.reject(refused(60_000))))
  const nested = outer.run(() => inner.run(async () => assert.fail('sent')))
  await assert.rejects(nested, /inner: it pauses for longer/)
  assert.equal(outer.standing().limit, 8)
  assert.equal(outer.standing().pausedUntil, undefined)
})

test('T5: after any mix of ends, aborts and short waits, no permit is out and nobody waits', async () => {
  const call = fc.record({
    afterMs: fc.nat(2_000),
    how: fc.constantFrom('return', 'throw', 'refuse', 'refuse later', 'ignore', 'abort'),
    maxWaitMs: fc.nat(3_000),
  })
  const property = fc.asyncProperty(fc.array(call, { maxLength: 40 }), async (calls) => {
    const { clock, to, settled } = downstream({ deadline: '5s' })
    const runs = calls.map(({ afterMs, how, maxWaitMs }) => {
      const stop = new AbortController()
      if (how === 'abort') void clock.sleep(afterMs).then(() => stop.abort(new Error('stopped')))
      const body = async (given: Call) => {
        if (how === 'ignore') return new Promise(() => undefined)
        await clock.sleep(afterMs, given.signal)
        if (how === 'throw') throw new Error('mine')
        if (how.startsWith('refuse')) throw refused(how === 'refuse' ? undefined : 500)
        return undefined
      }
      return to.run(body, { signal: stop.signal, maxWait: `${maxWaitMs}ms` })
    })
    const all = Promise.allSettled(runs)
    await settled()
    await clock.advance(120_000)
    await all
    await settled()
    const { held: out, waiting } = to.standing()
    assert.deepEqual({ out, waiting }, { out: 0, waiting: 0 })
  })
  await fc.assert(property, { seed: 22, numRuns: 40 })
})

test('one downstream more than a thousand replaces the one that was idle for longest, and never one in use', async () => {
  const clock = manualClock()
  const downstreams = downstreamsOn(clock)
  const once = (key: string) => downstreams.get(key).run(async () => undefined)
  for (let n = 0; n < 1_000; n += 1) await once(`k/${n}`)
  await clock.advance(1)
  await once('k/0')
  await once('k/new')
  const keys = [...downstreams.inUse().keys()]
  assert.equal(keys.length, 1_000)
  assert.deepEqual(keys.slice(0, 2), ['k/0', 'k/2'])
  assert.equal(keys.at(-1), 'k/new')
  for (const key of keys) void downstreams.get(key).run(() => new Promise(() => undefined))
  const message = '1000 other downstreams are in use by this pod'
  await assert.rejects(once('k/1'), { code: 'rate_limited', message })
  assert.equal(downstreams.inUse().size, 1_000)
})

test('paused agents shut nobody out: a new downstream replaces an agent of the tenant that has most of them', async () => {
  const clock = manualClock()
  const downstreams = downstreamsOn(clock)
  const { signal } = new AbortController()
  const limits = { maxWaitMs: 0, deadlineMs: 1_000, signal, waitSignal: signal }
  const once = (key: string, body: () => Promise<unknown>) => downstreams.permits.run(key, body, limits)
  const pause = (key: string, ms: number) => assert.rejects(once(key, () => Promise.reject(refused(ms))))
  await pause('agent/2/theirs', 1_000)
  for (let n = 0; n < 399; n += 1) await pause(`agent/1/a${n}`, n === 200 ? 30_000 : 60_000)
  for (let n = 0; n < 600; n += 1) await pause(`provider/account/m${n}`, 500)
  await once('agent/3/new', async () => undefined)
  const keys = downstreams.inUse()
  assert.equal(keys.size, 1_000)
  assert.ok(keys.has('agent/2/theirs'), 'the agent of the other tenant stays')
  assert.ok(keys.has('agent/3/new'), 'the new agent is there')
  assert.ok(!keys.has('agent/1/a200'), 'the agent whose pause ends first is replaced')
})

test('before the first refusal nobody waits longer than a second, and awaited calls do not wait', async () => {
  const { clock, to, settled, permits } = downstream()
  const background = Array.from({ length: 100 }, held)
  const runs = background.map((one) => to.run(one.body))
  await settled()
  assert.equal(to.standing().held, 8)
  const { signal } = new AbortController()
  const limits = { maxWaitMs: 0, deadlineMs: 60_000, signal, waitSignal: signal, isAwaited: true }
  const awaited = Array.from({ length: 50 }, held)
  const replies = awaited.map((one) => permits.run(KEY, one.body, limits))
  await settled()
  assert.equal(awaited.filter((one) => one.call() === undefined).length, 0, 'no awaited call waits')
  assert.equal(to.standing().held, 58)
  assert.equal(to.standing().waiting, 92)
  await clock.advance(1_000)
  assert.equal(background.filter((one) => one.call() === undefined).length, 0, 'no other call waits')
  for (const one of [...background, ...awaited]) one.done()
  await Promise.all([...runs, ...replies])
  assert.equal(to.standing().held, 0)
  assert.equal(clock.sleepers, 0)
})

test('after the first refusal an awaited call waits like all others', async () => {
  const { clock, to, settled, permits } = downstream()
  await assert.rejects(to.run(() => Promise.reject(refused())))
  await clock.advance(2_000)
  const { signal } = new AbortController()
  const limits = { maxWaitMs: 0, deadlineMs: 60_000, signal, waitSignal: signal, isAwaited: true }
  const first = held()
  const run = permits.run(KEY, first.body, limits)
  await settled()
  const turnedAway = assert.rejects(
    permits.run(KEY, async () => assert.fail('sent'), limits),
    /nothing was sent/,
  )
  await settled()
  await turnedAway
  first.done()
  await run
})
