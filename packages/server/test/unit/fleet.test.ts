import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDuties } from '../../src/fleet/duties.ts'
import { decide, type View } from '../../src/fleet/election.ts'
import { createTrust } from '../../src/fleet/trust.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { manualClock } from '../support/clock.ts'
import { silentLog } from '../support/log.ts'

const LIMITS = { beatMs: 1_000, ttlMs: 5_000 }

test('P3: the age of trust counts from before the last confirmed beat was sent, and trust ends a margin before the ttl', async () => {
  const clock = manualClock()
  const trust = createTrust(LIMITS, clock)
  assert.equal(trust.isFenced(), true)
  assert.equal(trust.ageMs(), Number.POSITIVE_INFINITY)
  const sentMs = clock.monotonicMs()
  await clock.advance(3_000) // the answer came late: it proves only that the pod was alive when it sent the beat
  trust.confirm(sentMs)
  assert.equal(trust.isFenced(), false)
  assert.equal(trust.ageMs(), 3_000)
  await clock.advance(1_000)
  assert.equal(trust.isFenced(), false)
  await clock.advance(1)
  assert.equal(trust.isFenced(), true)
  trust.confirm(clock.monotonicMs())
  assert.equal(trust.isFenced(), false)
  trust.reset()
  assert.equal(trust.isFenced(), true, 'a new incarnation starts without trust')
})

test('a pod judges others only after its own beats have succeeded for five intervals', async () => {
  const clock = manualClock()
  const trust = createTrust(LIMITS, clock)
  const beatFor = async (beats: number) => {
    for (let n = 0; n < beats; n += 1) {
      trust.confirm(clock.monotonicMs())
      await clock.advance(LIMITS.beatMs)
    }
  }
  await beatFor(4)
  assert.equal(trust.mayJudge(), false)
  await beatFor(1)
  assert.equal(trust.mayJudge(), true)
  trust.miss()
  assert.equal(trust.mayJudge(), false, 'its own beat failed: perhaps everybody’s did')
  await beatFor(5)
  assert.equal(trust.mayJudge(), true)
  await clock.advance(4_000) // no beat failed, but none succeeded either
  await beatFor(1)
  assert.equal(trust.mayJudge(), false)
})

test('the oldest healthy pod leads, and a healthy leader keeps its term', () => {
  const [young, old] = [0, LIMITS.ttlMs + 1]
  const view = (leader: number | null, ...ages: readonly number[]): View => ({
    term: 7,
    leader,
    members: ages.map((silentMs, index) => ({ id: index + 1, state: 'live', beat: '', silentMs })),
  })
  const as = (id: number, seen: View, mayJudge = true) => decide(seen, { id, mayJudge }, LIMITS.ttlMs)
  const draining = (seen: View, pod: number): View => ({
    ...seen,
    members: seen.members.map((member) => (member.id === pod ? { ...member, state: 'draining' } : member)),
  })
  const cases: readonly (readonly [what: string, found: string, expected: string])[] = [
    ['nobody leads, I am the oldest', as(1, view(null, young, young)), 'take'],
    ['nobody leads, another is older', as(2, view(null, young, young)), 'wait'],
    ['nobody leads, the older one is silent', as(2, view(null, old, young)), 'take'],
    ['I lead', as(2, view(2, young, young)), 'lead'],
    ['I lead and drain', as(2, draining(view(2, young, young), 2)), 'give-up'],
    ['a younger pod leads', as(1, view(2, young, young)), 'follow'],
    ['the leader is silent', as(2, view(1, old, young)), 'take'],
    ['the leader is silent, and I may not judge', as(2, view(1, old, young), false), 'wait'],
    ['the leader drains', as(2, draining(view(1, young, young), 1), false), 'take'],
    ['the leader is dead', as(1, view(9, young, young), false), 'take'],
    ['the leader is dead, and I drain', as(1, draining(view(9, young, young), 1)), 'follow'],
  ]
  for (const [what, found, expected] of cases) assert.equal(found, expected, what)
})

test('a long duty holds up no other, and leaves the rest for its next run', async () => {
  const [clock, metrics] = [manualClock(), createMetrics()]
  const runs = { short: 0, long: 0, steps: 0, failing: 0 }
  const long = async (_: object, hasTime: () => boolean) => {
    runs.long += 1
    while (hasTime()) {
      runs.steps += 1
      await clock.sleep(500)
    }
  }
  const failing = async () => {
    runs.failing += 1
    throw new Error('always')
  }
  const duties = createDuties({
    clock,
    metrics,
    log: silentLog(),
    term: () => ({ term: 1, pod: 1 }),
    duties: [
      { name: 'long', everyMs: 1_000, run: long },
      { name: 'failing', everyMs: 1_000, run: failing },
      { name: 'short', everyMs: 1_000, run: async () => void (runs.short += 1) },
    ],
  })
  await duties.start()
  await clock.advance(1_900)
  assert.deepEqual(runs, { short: 2, long: 1, steps: 4, failing: 2 })
  await clock.advance(1_500)
  assert.equal(runs.long, 2, 'it does the rest in its next run')
  const text = await metrics.text()
  assert.match(text, /fleetline_duty_seconds_count\{duty="long",outcome="done"\} 1/)
  assert.match(text, /fleetline_duty_seconds_count\{duty="failing",outcome="failed"\} [3-4]/)
  const stopped = duties.stop()
  await clock.advance(3_000)
  await stopped
})

test('duties of one group run one at a time, each in its turn, and leave room for the others', async () => {
  const clock = manualClock()
  const [runs, seen]: [string[], { now: number; most: number }] = [[], { now: 0, most: 0 }]
  const long = (name: string) => ({
    name,
    group: 'long',
    everyMs: 200,
    run: async () => {
      runs.push(name)
      seen.most = Math.max(seen.most, (seen.now += 1))
      await clock.sleep(2_000)
      seen.now -= 1
    },
  })
  let shortRuns = 0
  const short = { name: 'short', everyMs: 1_000, run: async () => void (shortRuns += 1) }
  const duties = createDuties({
    clock,
    metrics: createMetrics(),
    log: silentLog(),
    term: () => ({ term: 1, pod: 1 }),
    duties: [...['a', 'b', 'c', 'd'].map(long), short],
  })
  await duties.start()
  await clock.advance(9_900)
  assert.deepEqual(runs, ['a', 'b', 'c', 'd', 'a'])
  assert.equal(seen.most, 1)
  assert.ok(shortRuns >= 8, `${shortRuns} runs`)
  const stopped = duties.stop()
  await clock.advance(10_000)
  await stopped
})
