// The simulator of `npm run bench -- throttle`: what it says is no accident.
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

test('no entrant sends inside a Retry-After; what is sent is done, refused or in flight; the oracle is never refused', () => {
  for (const entrant of [OURS, AIMD, FIXED, ORACLE]) {
    const { sent, refused, done, insideRetryAfter, samples } = simulate(SHORT, costs, entrant, 3)
    assert.equal(insideRetryAfter, 0, entrant.name)
    assert.ok(
      sent - refused - done >= 0 && sent - refused - done <= 80,
      `${entrant.name}: ${sent} ${refused} ${done}`,
    )
    assert.ok(samples.every(({ inFlight, capacity }) => inFlight <= capacity))
    assert.equal(refused === 0, entrant === ORACLE)
  }
})

test('mutant: who sends inside a Retry-After is found', () => {
  const deaf: Entrant = {
    ...AIMD,
    open: (world) => {
      const fleet = AIMD.open(world)
      return { ...fleet, ended: (pod, end) => fleet.ended(pod, { ...end, waitMs: undefined } as typeof end) }
    },
  }
  assert.ok(simulate(SHORT, costs, deaf, 3).insideRetryAfter > 0)
})

test('in a simulated fleet that meets its limit the capacity is found, and little is refused', () => {
  const { samples, sent, refused } = simulate({ ...WORKLOADS[0]!, endMs: 120_000 }, free, OURS, 4)
  const late = samples.filter(({ ms }) => ms > 60_000)
  const mean = late.reduce((sum, { inFlight }) => sum + inFlight, 0) / late.length
  assert.ok(mean > 70 && mean <= 80, `${mean} of 80 in flight`)
  assert.ok(refused / sent < 0.03, `${refused} of ${sent} refused`)
})
