// The simulator of `npm run bench -- throttle`: its results can be repeated and trusted.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AIMD, FIXED, ORACLE, type Entrant } from '../bench/throttle/entrant.ts'
import { OURS } from '../bench/throttle/ours.ts'
import { simulate } from '../bench/throttle/simulate.ts'
import { VARIANTS, WORKLOADS } from '../bench/throttle/workloads.ts'

const [free, costs] = VARIANTS as [(typeof VARIANTS)[number], (typeof VARIANTS)[number]]
const SHORT = { ...WORKLOADS[3]!, endMs: 60_000, podsAt: (ms: number) => (ms < 30_000 ? 4 : 16) }

test('the same seed gives the same bytes, another seed others', () => {
  for (const entrant of [OURS, AIMD, FIXED, ORACLE]) {
    const bytes = (seed: number) => JSON.stringify(simulate(SHORT, costs, entrant, seed))
    assert.equal(bytes(1), bytes(1), entrant.name)
    assert.notEqual(bytes(1), bytes(2), entrant.name)
  }
})

test('no entrant loses a call or sends inside a Retry-After, and only the oracle is never refused', () => {
  for (const entrant of [OURS, AIMD, FIXED, ORACLE]) {
    const { sent, refused, done, insideRetryAfter, samples } = simulate(SHORT, costs, entrant, 3)
    const left = sent - refused - done
    const counts = `${entrant.name}: ${sent} sent, ${refused} refused, ${done} done`
    assert.equal(insideRetryAfter, 0, `${entrant.name}: ${insideRetryAfter} inside a Retry-After`)
    assert.ok(left >= 0, counts)
    assert.ok(left <= 80, counts)
    assert.ok(
      samples.every(({ inFlight, capacity }) => inFlight <= capacity),
      `${entrant.name}: more in flight than the capacity`,
    )
    assert.equal(refused === 0, entrant === ORACLE, counts)
  }
})

test('mutant: an entrant that sends inside a Retry-After is found', () => {
  const deaf: Entrant = {
    ...AIMD,
    open: (world) => {
      const fleet = AIMD.open(world)
      return { ...fleet, ended: (pod, end) => fleet.ended(pod, { ...end, waitMs: undefined } as typeof end) }
    },
  }
  const { insideRetryAfter } = simulate(SHORT, costs, deaf, 3)
  assert.ok(insideRetryAfter > 0, `${insideRetryAfter}`)
})

test('a simulated fleet that meets its limit finds the capacity, and few calls are refused', () => {
  const { samples, sent, refused } = simulate({ ...WORKLOADS[0]!, endMs: 120_000 }, free, OURS, 4)
  const late = samples.filter(({ ms }) => ms > 60_000)
  const mean = late.reduce((sum, { inFlight }) => sum + inFlight, 0) / late.length
  assert.ok(mean > 70 && mean <= 80, `${mean} of 80 in flight`)
  assert.ok(refused / sent < 0.03, `${refused} of ${sent} refused`)
})
