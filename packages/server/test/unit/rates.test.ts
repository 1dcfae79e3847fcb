// Token buckets on a clock that the test moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { createRates, type Rates } from '../../src/lib/rates.ts'
import { manualClock } from '../support/clock.ts'

type Plan = {
  readonly perSecond: number
  readonly burst: number
  readonly moves: readonly { readonly pauseMs: number; readonly tries: number; readonly name: string }[]
}

const plans: fc.Arbitrary<Plan> = fc.record({
  perSecond: fc.oneof(
    fc.integer({ min: 1, max: 50 }),
    fc.integer({ min: 1, max: 100 }).map((n) => n / 60),
  ),
  burst: fc.integer({ min: 1, max: 20 }),
  moves: fc.array(
    fc.record({
      pauseMs: fc.oneof(fc.nat(50), fc.nat(20_000)),
      tries: fc.nat(30),
      name: fc.constantFrom('a', 'b', 'c'),
    }),
    { maxLength: 30 },
  ),
})

test('in any window of T seconds at most burst + rate * T are let through, and after the wait it passes', async () => {
  await fc.assert(fc.asyncProperty(plans, (plan) => check(plan, createRates)))
})

test('mutants: a limiter that always takes, and one that forgets, are found', async () => {
  const open = (): Rates => ({ take: () => 0, waitMs: () => 0 })
  const forgetful: typeof createRates = (options) => createRates({ ...options, most: 1 })
  const plan = {
    perSecond: 1,
    burst: 2,
    moves: [...'abcabcabc'].map((name) => ({ pauseMs: 0, tries: 2, name })),
  }
  await check(plan, createRates)
  await assert.rejects(check(plan, open), /were let through/)
  await assert.rejects(check(plan, forgetful), /were let through/)
})

test('a name gets its burst at once, then its rate; names do not share', async () => {
  const clock = manualClock()
  const rates = createRates({ perSecond: 10, burst: 3, most: 10, clock })
  const take = (name: string) => Array.from({ length: 4 }, () => rates.take(name))
  assert.deepEqual(take('a'), [0, 0, 0, 100])
  assert.deepEqual(take('b'), [0, 0, 0, 100])
  await clock.advance(99)
  assert.deepEqual([rates.waitMs('a'), rates.take('a')], [1, 1])
  await clock.advance(1)
  assert.deepEqual([rates.waitMs('a'), rates.waitMs('a')], [0, 0], 'asking takes nothing')
  assert.deepEqual([rates.take('a'), rates.take('a')], [0, 100])
})

test('at most `most` names are kept: the one that was used longest ago is forgotten first', () => {
  const rates = createRates({ perSecond: 1, burst: 1, most: 100, clock: manualClock() })
  const use = (names: number, mark: string) => {
    for (let n = 0; n < names; n += 1) rates.take(`${mark}${n}`)
  }
  rates.take('a')
  use(49, 'x')
  assert.ok(rates.take('a') > 0)
  use(100, 'y')
  assert.equal(rates.take('a'), 0, 'it was forgotten')
})

async function check({ perSecond, burst, moves }: Plan, create: typeof createRates): Promise<void> {
  const clock = manualClock()
  const rates = create({ perSecond, burst, most: 10, clock })
  const passed = new Map<string, number[]>()
  for (const { pauseMs, tries, name } of moves) {
    await clock.advance(pauseMs)
    const times = passed.get(name) ?? []
    passed.set(name, times)
    for (let n = 0; n < tries; n += 1) {
      const waitMs = rates.take(name)
      if (waitMs === 0) times.push(clock.monotonicMs())
      else assert.ok(waitMs <= Math.ceil(1_000 / perSecond), `a wait of ${waitMs} ms`)
    }
  }
  for (const times of passed.values()) assertRate(times, { perSecond, burst })
  for (const name of passed.keys()) {
    await clock.advance(rates.waitMs(name))
    assert.equal(rates.take(name), 0, 'after the wait it passes')
  }
}

function assertRate(times: readonly number[], { perSecond, burst }: Pick<Plan, 'perSecond' | 'burst'>): void {
  for (const [first, fromMs] of times.entries())
    for (const [last, toMs] of times.entries()) {
      if (last < first) continue
      const most = burst + (perSecond * (toMs - fromMs)) / 1_000
      assert.ok(last - first + 1 <= most + 1e-6, `${last - first + 1} were let through, not ${most}`)
    }
}
