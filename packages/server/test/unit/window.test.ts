import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { CallFailure } from '../../src/throttle/reply/outcome.ts'
import { UNREAD, type Lease } from '../../src/throttle/fleet/lease.ts'
import {
  capOf,
  recordEnd,
  pauseFor,
  applyLease,
  maySend,
  openWindow,
  recordSent,
  type CallEnd,
  type Window,
} from '../../src/throttle/pod/window.ts'

const RULES = { start: 8, most: 200 }
const FAR_MS = 1e9

type Sent = { readonly sentAtMs: number }

/** A window and its calls. Time stands still until the test moves it. */
function downstream(rules = RULES, learnt: Partial<Window> = {}) {
  const read = applyLease(openWindow(rules), { ...UNREAD, share: rules.most, untilMs: FAR_MS, gen: 1 }, 0)
  let window: Window = { ...read, ...learnt }
  let nowMs = 0
  const cuts: string[] = []
  const end = (how: Partial<CallEnd> & Pick<CallEnd, 'kind'>, { sentAtMs }: Sent, chance = 0) => {
    const whole = how.kind === 'ok' ? { wholeMs: nowMs - sentAtMs } : {}
    const { window: next, cut } = recordEnd(window, { ...whole, sentAtMs, ...how } as CallEnd, {
      nowMs,
      chance,
      rules,
    })
    window = next
    if (cut) cuts.push(cut)
  }
  const send = (): Sent => {
    assert.ok(maySend(window, nowMs), 'no permit')
    window = recordSent(window, nowMs)
    return { sentAtMs: nowMs }
  }
  const flying: Sent[] = []
  const fill = () => {
    while (maySend(window, nowMs)) flying.push(send())
  }
  const filled = () => {
    fill()
    return flying.splice(0)
  }
  return {
    cuts,
    send,
    filled,
    end,
    pass: (ms: number) => void (nowMs += ms),
    /** Keeps as many calls in flight as allowed: those in flight end after `ms`, and others follow at once. */
    roundTrip: (ms = 1_000, firstMs?: number) => {
      fill()
      nowMs += ms
      for (const call of flying.splice(0)) {
        end({ kind: 'ok', firstMs }, call)
        fill()
      }
    },
    /** Ends all calls in flight without any effect on the limit. */
    rest: () => {
      for (const call of flying.splice(0)) end({ kind: 'client' }, call)
    },
    lease: (lease: Partial<Lease>) =>
      void (window = applyLease(window, { ...window.lease, ...lease }, nowMs)),
    mayBegin: () => maySend(window, nowMs),
    get cap() {
      return capOf(window, nowMs)
    },
    get window() {
      return window
    },
    get nowMs() {
      return nowMs
    },
  }
}

/** A window that is no longer starting, at this limit. */
const standingAt = (limit: number) => downstream(RULES, { limit, isStarting: false })

function refusedAt(limit: number) {
  const to = standingAt(limit)
  const calls = to.filled()
  to.pass(100)
  return { to, calls }
}

test('T2: the refusals of one overload cut once, those of the next cut again', () => {
  const { to, calls } = refusedAt(32)
  for (const call of calls.slice(0, 20)) to.end({ kind: 'refused' }, call)
  assert.deepEqual(to.cuts, ['refused'])
  assert.equal(to.cap, 22)
  to.pass(50)
  for (const call of calls.slice(20)) to.end({ kind: 'refused' }, call) // these calls, too, were sent before the cut
  assert.deepEqual(to.cuts, ['refused'])
  assert.equal(to.cap, 22)
  const [next] = to.filled()
  to.end({ kind: 'refused' }, next!)
  assert.deepEqual(to.cuts, ['refused', 'refused'])
  assert.equal(to.cap, 15)
})

test('a cut starts from the calls that were really in flight', () => {
  const { to, calls } = refusedAt(32)
  for (const call of calls.slice(0, 22)) to.end({ kind: 'client' }, call)
  to.end({ kind: 'refused' }, calls[22]!)
  assert.equal(to.cap, 7, '0.7 of the ten in flight')
})

test('starting: the limit doubles every 200 ms from when it was first used up, even if no call ends', () => {
  const to = downstream()
  to.pass(60_000)
  assert.equal(to.cap, 8, 'it was not used up yet')
  const caps = Array.from({ length: 6 }, () => {
    const { cap } = to
    to.filled()
    to.pass(200)
    return cap
  })
  assert.deepEqual(caps, [8, 16, 32, 64, 128, 200])
})

test('starting: only the bound holds back calls that somebody waits for', () => {
  const to = downstream()
  assert.equal(capOf(to.window, 0), 8)
  assert.equal(capOf(to.window, 0, true), 200)
  assert.equal(capOf(openWindow(RULES), 0, true), 1, 'before the first read')
  to.end({ kind: 'refused' }, to.send())
  assert.equal(to.cap, 1)
  assert.equal(capOf(to.window, to.nowMs, true), 1, 'after the first sign of a limit')
})

test('T2: the refusals of the first burst are one cut, to a little less than the downstream accepted', () => {
  const to = downstream({ start: 200, most: 200 })
  const calls = to.filled()
  assert.equal(calls.length, 200)
  to.pass(150)
  for (const call of calls.slice(10)) to.end({ kind: 'refused' }, call)
  assert.deepEqual(to.cuts, ['refused'])
  assert.equal(to.cap, 9)
  assert.equal(to.window.held, 10)
  assert.equal(to.mayBegin(), false)
  to.pass(10_000)
  for (const call of calls.slice(0, 10)) to.end({ kind: 'ok' }, call)
  const [next, late] = to.filled()
  to.end({ kind: 'client' }, late!)
  to.end({ kind: 'refused' }, next!)
  assert.equal(to.cuts.length, 2, 'a refusal after the burst cuts again')
})

test('T2: after the first cut the limit grows by one a round trip, but not during the hold', () => {
  const { to, calls } = refusedAt(32)
  for (const [index, call] of calls.entries()) to.end({ kind: index === 0 ? 'refused' : 'client' }, call)
  const held = to.cap
  assert.equal(held, 22)
  to.roundTrip(1_899) // the hold lasts two seconds
  assert.equal(to.cap, held, 'held')
  to.pass(200)
  for (let trips = 1; trips <= 5; trips += 1) {
    const before = to.window.limit
    to.roundTrip()
    assert.ok(to.window.limit > before && to.window.limit <= before + 1, `${before} → ${to.window.limit}`)
  }
})

test('a limit that is not used does not grow, and shrinks within about a minute', () => {
  const to = standingAt(64)
  to.roundTrip()
  to.rest()
  const { limit } = to.window
  to.end({ kind: 'ok' }, to.send())
  assert.equal(to.window.limit, limit)
  for (let seconds = 0; seconds < 70; seconds += 1) {
    const call = to.send()
    to.pass(1_000)
    to.end({ kind: 'ok' }, call)
  }
  assert.equal(to.cap, 8)
})

test('the limit does not grow while latency is up, and shrinks a little if it is far up', () => {
  const to = standingAt(64)
  const after = (trips: number, firstMs: number) => {
    for (let trip = 0; trip < trips; trip += 1) to.roundTrip(1_000, firstMs)
    return to.window.limit
  }
  const usual = after(4, 100)
  const slower = after(1, 140)
  assert.ok(slower < usual + 1, `${usual} → ${slower}: a window has closed meanwhile`)
  assert.equal(after(2, 140), slower, 'the limit stays')
  assert.equal(to.window.latency.ratio, 1.4)
  assert.deepEqual(to.cuts, [])
  const shrunk = after(2, 170)
  assert.ok(shrunk < slower, `${slower} → ${shrunk}`)
  assert.deepEqual(new Set(to.cuts), new Set(['latency']))
})

test('starting ends when calls become slow, at a little less than was in flight', () => {
  const to = downstream({ start: 50, most: 200 })
  for (let trip = 0; trip < 2; trip += 1) to.roundTrip(100, 100)
  assert.equal(to.window.isStarting, true)
  while (to.window.isStarting) to.roundTrip(100, 200)
  assert.ok(to.cap < 50 * 4, `${to.cap}`)
  assert.equal(to.cuts[0], 'latency')
})

test('T3: no call begins inside a Retry-After, even one from an answer that cuts nothing', () => {
  const { to, calls } = refusedAt(8)
  to.end({ kind: 'refused', waitMs: 5_000 }, calls[0]!, 0.5)
  for (const call of calls.slice(1, 7)) to.end({ kind: 'refused', waitMs: 2_000 }, call, 1) // shorter: changes nothing
  assert.equal(to.cuts.length, 1)
  to.pass(5_249)
  assert.equal(to.mayBegin(), false)
  to.pass(1)
  assert.equal(to.mayBegin(), true)
  to.end({ kind: 'server', waitMs: 7_000 }, calls[7]!)
  to.pass(6_999)
  assert.equal(to.mayBegin(), false)
})

test('at limit 1 a refusal without a wait pauses for 1, 2, 4 … 60 s, and a success starts this again', () => {
  const to = downstream({ start: 1, most: 200 }, { isStarting: false })
  const pausesMs = () => {
    to.end({ kind: 'refused' }, to.send())
    const ms = Math.max(0, to.window.pauseUntilMs - to.nowMs)
    to.pass(ms)
    return ms
  }
  assert.deepEqual(
    Array.from({ length: 8 }, pausesMs),
    [1, 2, 4, 8, 16, 32, 60, 60].map((s) => s * 1_000),
  )
  to.end({ kind: 'ok' }, to.send())
  assert.deepEqual([pausesMs(), pausesMs()], [0, 1_000], 'at limit 2, then at limit 1')
})

test('a timeout cuts half as much as a refusal', () => {
  const { to, calls } = refusedAt(32)
  to.end({ kind: 'timeout' }, calls[0]!)
  assert.equal(to.cap, 27)
})

test('errors of the client cut nothing', () => {
  const { to, calls } = refusedAt(32)
  for (const call of calls) to.end({ kind: 'client' }, call)
  assert.equal(to.cap, 32)
})

test('errors of the server cut once if there are enough of them, and are counted again after the cut', () => {
  const { to, calls } = refusedAt(32)
  to.pass(30_000) // earlier successes do not count any more
  for (const call of calls.slice(0, 9)) to.end({ kind: 'server' }, call)
  assert.equal(to.cap, 32, 'nine errors are too few')
  for (const call of calls.slice(9, 25)) to.end({ kind: 'server' }, call)
  assert.deepEqual(to.cuts, ['server'])
  assert.equal(to.cap, 16, '.7 of the 23 in flight')
  for (const call of calls.slice(25)) to.end({ kind: 'client' }, call)
  to.end({ kind: 'server' }, to.send())
  assert.equal(to.cap, 16, 'errors before the cut do not count any more')
})

test('T2, T3: in any order of events no call is sent above the cap or inside a pause, and one overload cuts once', () => {
  const event = fc.record({
    passMs: fc.nat(3_000),
    kind: fc.constantFrom<CallFailure['kind'] | 'ok'>(
      'ok',
      'ok',
      'ok',
      'refused',
      'timeout',
      'server',
      'client',
    ),
    waitMs: fc.option(fc.nat(4_000), { nil: undefined }),
    pick: fc.nat(500),
  })
  const property = fc.property(fc.array(event, { maxLength: 300 }), (events) => {
    const to = downstream()
    const flying: Sent[] = []
    let lastCutMs = -FAR_MS
    for (const { passMs, kind, waitMs, pick } of events) {
      flying.push(...to.filled())
      assert.equal(to.window.held, flying.length)
      assert.ok(to.cap >= 1, `${to.cap}`)
      to.pass(passMs)
      const [call] = flying.splice(pick % Math.max(1, flying.length), 1)
      if (!call) continue
      const { cuts, cap } = { cuts: to.cuts.length, cap: to.cap }
      to.end({ kind, waitMs: kind === 'ok' ? undefined : waitMs }, call, 0.3)
      const isCut = to.cuts.length > cuts && to.cuts.at(-1) !== 'latency'
      assert.ok(!isCut || call.sentAtMs >= lastCutMs, 'a call that was sent before a cut has cut again')
      assert.ok(kind === 'ok' || to.cap <= cap, `${kind} has raised the cap from ${cap} to ${to.cap}`)
      if (isCut) lastCutMs = to.nowMs
      if (to.window.pauseUntilMs > to.nowMs) assert.equal(to.mayBegin(), false)
    }
    for (const call of flying) to.end({ kind: 'client' }, call)
    assert.equal(to.window.held, 0)
  })
  fc.assert(property, { seed: 22, numRuns: 100 })
})

test('T6: the cap is 1 before the first read, the share under a lease, and at most the safe share after it', () => {
  assert.equal(capOf(openWindow(RULES), 0), 1)
  const to = downstream()
  to.roundTrip(500)
  to.rest()
  assert.equal(to.cap, 32)
  to.lease({ share: 20, safe: 8, untilMs: to.nowMs + 5_000, isLearnt: true })
  assert.equal(to.cap, 20)
  assert.equal(to.window.isStarting, false)
  to.roundTrip(4_999)
  assert.equal(to.cap, 20)
  to.rest()
  to.pass(1)
  assert.equal(to.cap, 8)
  for (let trips = 0; trips < 20; trips += 1) to.roundTrip()
  assert.equal(to.cap, 8, 'it does not grow on its own')
  to.rest()
  to.lease({ share: 3, safe: 8, untilMs: to.nowMs + 1 })
  to.pass(1)
  assert.equal(to.cap, 3)
  to.lease({ share: 0, untilMs: to.nowMs + 1 })
  assert.equal(to.cap, 0)
  assert.equal(to.mayBegin(), false)
  to.pass(1)
  assert.equal(to.cap, 1, 'a pod without a leader may send one call')
})

test('the limit is pulled up to the share, unless calls are refused anywhere or this pod was cut within three calls', () => {
  const to = standingAt(8)
  to.roundTrip(2_000)
  to.rest()
  const shared = { share: 50, isLearnt: true, isClean: true }
  to.lease({ ...shared, isClean: false })
  assert.equal(to.cap, 8)
  to.lease(shared)
  assert.equal(to.cap, 50)
  const calls = to.filled()
  to.end({ kind: 'refused' }, calls[0]!)
  assert.equal(to.cap, 42, 'cut to .85 under a share, because the leader cuts, too')
  for (const call of calls.slice(1)) to.end({ kind: 'client' }, call)
  to.pass(5_999)
  to.lease(shared)
  assert.equal(to.cap, 42)
  to.pass(1)
  to.lease(shared)
  assert.equal(to.cap, 50)
})

test('a wait of ten seconds or more applies to all pods, a shorter one to this pod', () => {
  const { to, calls } = refusedAt(8)
  to.end({ kind: 'refused', waitMs: 9_999 }, calls[0]!)
  assert.ok(to.window.wideUntilMs < to.nowMs, `all pods pause until ${to.window.wideUntilMs}`)
  to.end({ kind: 'refused', waitMs: 10_000 }, calls[1]!, 1)
  assert.equal(to.window.wideUntilMs - to.nowMs, 10_000)
  assert.equal(to.window.pauseUntilMs - to.nowMs, 11_000)
})

test('a pause of all pods is spread once, however often it is read, and a longer one is spread again', () => {
  const { window, nowMs } = downstream()
  const first = pauseFor(window, 20_000, { nowMs, chance: 0.1 })
  assert.equal(first.pauseUntilMs - nowMs, 20_200)
  const again = pauseFor(first, 19_000, { nowMs: nowMs + 1_000, chance: 1 })
  assert.equal(again.pauseUntilMs, first.pauseUntilMs)
  const longer = pauseFor(again, 40_000, { nowMs: nowMs + 1_000, chance: 1 })
  assert.equal(longer.pauseUntilMs - nowMs, 45_000)
})
