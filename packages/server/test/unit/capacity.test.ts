// What the leader learns about a downstream from the pods' reports, and what a pod reports.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { learnCapacity, UNLEARNT, type Capacity, type RoundSum } from '../../src/throttle/fleet/capacity.ts'
import { isNews, nextRow, type LedgerRow } from '../../src/throttle/fleet/ledger.ts'
import { countEnd, emptyTally, setHeld, takeLoad } from '../../src/throttle/pod/tally.ts'

const CALM: RoundSum = { inFlight: 0, peak: 0, left: 0, spare: 0, ok: 0, refused: 0, firstsMs: [] }

function of(capacity: number | null, memory: Partial<Capacity['memory']> = {}): Capacity {
  return { capacity, memory: { ...UNLEARNT.memory, ...memory } }
}
/** The peak is the mean in flight, unless `seen` has another. */
const after = (before: Capacity, seen: Partial<RoundSum>) =>
  learnCapacity(before, { ...CALM, peak: seen.inFlight ?? 0, ...seen }, 1_000)
const near = (value: number | null, wanted: number) =>
  assert.ok(Math.abs(value! - wanted) < 1e-9, `${value}, expected ${wanted}`)

test('the capacity is unknown until calls are refused, and then a little less than was in flight', () => {
  assert.equal(after(UNLEARNT, { inFlight: 50, ok: 500 }).capacity, null)
  assert.equal(
    after(UNLEARNT, { inFlight: 50, ok: 500, refused: 5 }).capacity,
    null,
    'less than one call in a hundred was refused',
  )
  near(after(UNLEARNT, { inFlight: 50, ok: 400, refused: 5 }).capacity, 48.5)
  assert.equal(after(UNLEARNT, { inFlight: 0.2, refused: 1 }).capacity, 1)
})

test('a first burst sets the capacity to what is left of it, again and again while more of it is refused', () => {
  const first = after(UNLEARNT, { inFlight: 4, peak: 200, left: 105, refused: 95 })
  near(first.capacity, 101.85)
  const second = after(first, { inFlight: 10, peak: 105, left: 10, refused: 95 })
  near(second.capacity, 9.7)
  const calm = after(second, { inFlight: 9, left: 9, ok: 2 })
  const later = after(calm, { inFlight: 9, left: 1, ok: 8, refused: 1 })
  near(later.capacity, 0.97 * 9) // the first burst is over: now the mean in flight counts
})

test('refusals cut the capacity by at least .03 and at most .3, and restart the count of clean calls', () => {
  const cut = after(of(100, { okSince: 900, samples: [1, 2] }), { inFlight: 100, ok: 90, refused: 10 })
  near(cut.capacity, 97)
  assert.equal(cut.memory.okSince, 0)
  assert.deepEqual(cut.memory.samples, [])
  assert.equal(cut.memory.isRefusing, true)
  near(after(of(100), { inFlight: 80, ok: 90, refused: 10 }).capacity, 77.6)
  near(after(of(100), { inFlight: 10, ok: 90, refused: 10 }).capacity, 70)
})

test('the capacity grows with successful calls while it is in use, faster after 7 and after 11 clean round trips', () => {
  near(after(of(100), { inFlight: 85, ok: 50 }).capacity, 100.6)
  assert.equal(after(of(100), { inFlight: 84.9, ok: 50 }).capacity, 100, 'not in use')
  near(after(of(100, { okSince: 649 }), { inFlight: 85, ok: 50 }).capacity, 100.6)
  near(after(of(100, { okSince: 650 }), { inFlight: 85, ok: 50 }).capacity, 101.6)
  near(after(of(100, { okSince: 1_049 }), { inFlight: 85, ok: 50 }).capacity, 101.6)
  near(after(of(100, { okSince: 1_050 }), { inFlight: 85, ok: 50 }).capacity, 105)
  assert.equal(
    after(of(100), { inFlight: 100, ok: 1_000, refused: 1 }).capacity,
    100,
    'a single refusal stops the growth',
  )
  near(after(of(4.7), { inFlight: 3.4, ok: 4 }).capacity, 4.748)
  near(after(of(100), { inFlight: 30, peak: 85, ok: 50 }).capacity, 100.6) // short calls, with gaps between them
  near(after(of(100), { inFlight: 34, spare: 60, ok: 50 }).capacity, 100.6)
  assert.equal(after(of(100), { inFlight: 33.9, spare: 60, ok: 50 }).capacity, 100)
})

test('of short calls at most one round trip a round counts, because pods learn of growth once a round', () => {
  const grown = after(of(100, { okSince: 100 }), { inFlight: 100, ok: 5_000 })
  near(grown.capacity, 101.2)
  assert.equal(grown.memory.okSince, 200)
})

test('any refusal, or a cut for slowness, restarts the count of clean round trips', () => {
  const clean = { okSince: 900 }
  assert.equal(after(of(100, clean), { inFlight: 100, ok: 1_000, refused: 1 }).memory.okSince, 0)
  const slow = after(of(100, { ...clean, ratio: 1.4 }), { inFlight: 100, ok: 10 })
  assert.equal(slow.capacity, 93)
  assert.equal(slow.memory.okSince, 0)
})

test('the capacity is cut when the first tokens of all pods become slow, and stays while they are a little slow', () => {
  const times = (ms: number) => Array.from({ length: 60 }, () => ms)
  const usual = after(of(100), { inFlight: 90, ok: 0, firstsMs: times(100) })
  const slow = after(usual, { inFlight: 90, ok: 100, firstsMs: times(136) })
  near(slow.capacity, 83.7)
  assert.equal(
    after(slow, { inFlight: 90, ok: 100 }).capacity,
    slow.capacity,
    'it stays until the next window',
  )
  near(after(slow, { inFlight: 90, ok: 100, firstsMs: times(100) }).capacity, slow.capacity! * 1.012)
  near(after(of(null, usual.memory), { inFlight: 50, firstsMs: times(200) }).capacity, 46.5)
  const half = after(usual, { firstsMs: times(300).slice(30) })
  const late = learnCapacity(half, { ...CALM, firstsMs: times(300).slice(30) }, 70_000)
  assert.equal(late.memory.medians.length, 1, 'samples that do not fill a window within a minute are dropped')
  const calm = learnCapacity(slow, { ...CALM, peak: 90, ok: 10 }, 61_001)
  near(calm.capacity, slow.capacity! + 0.12)
})

test('a report has totals and the mean in flight without refused calls, and its want rises fast and falls slowly', () => {
  const standing = { waiting: 0, most: 9, gen: 3 }
  let tally = setHeld(emptyTally(0), 2, 0)
  tally = countEnd(
    setHeld(tally, 1, 500),
    { kind: 'ok', firstMs: 120.4, sentAtMs: 0 },
    { nowMs: 500, chance: 0 },
  )
  tally = countEnd(setHeld(tally, 0, 750), { kind: 'refused', sentAtMs: 0 }, { nowMs: 750, chance: 0 })
  const first = takeLoad(tally, { ...standing, nowMs: 1_000, waiting: 11 })
  assert.deepEqual(first.load, {
    gen: 3,
    inFlight: 0.5,
    peak: 2,
    held: 0,
    want: 9.4,
    most: 9,
    ok: 1,
    refused: 1,
    firstsMs: [120],
  })
  const second = takeLoad(first.tally, { ...standing, nowMs: 2_000 })
  assert.deepEqual(second.load, { ...first.load, inFlight: 0, peak: 0, want: 8.46, firstsMs: [] })
  const across = setHeld(second.tally, 1, 2_500)
  const third = takeLoad(across, { ...standing, nowMs: 3_000 })
  assert.equal(third.load.inFlight, 0.5)
  const refusal = { kind: 'refused', sentAtMs: 2_500 } as const
  const late = countEnd(setHeld(third.tally, 0, 3_200), refusal, { nowMs: 3_200, chance: 0 })
  assert.equal(takeLoad(late, { ...standing, nowMs: 4_000 }).load.inFlight, 0, 'it is never below 0')
})

test('a report has 32 times to the first token, from the whole round', () => {
  let [tally, chance] = [emptyTally(0), 0.5]
  for (let ms = 0; ms < 1_000; ms += 1) {
    chance = (chance * 7.77) % 1
    tally = countEnd(tally, { kind: 'ok', firstMs: ms, sentAtMs: 0 }, { nowMs: 0, chance })
  }
  const { firstsMs } = takeLoad(tally, { nowMs: 1, waiting: 0, most: 9, gen: 1 }).load
  assert.equal(firstsMs.length, 32)
  assert.ok(
    firstsMs.some((ms) => ms > 500),
    firstsMs.join(' '),
  )
  assert.ok(
    firstsMs.some((ms) => ms < 500),
    firstsMs.join(' '),
  )
})

test('a row counts neither the calls of a new pod nor those of a time without a leader', () => {
  const load = { gen: 0, inFlight: 9, peak: 9, want: 9, most: 20, ok: 1_000, refused: 50, firstsMs: [] }
  const first = nextRow(undefined, [{ pod: 1, at: 0, load }], 0)
  assert.equal(first.capacity, null)
  assert.equal(first.safe, 1)
  assert.equal(first.shares[1]!.share, 20)
  const more = { ...load, ok: 1_050, refused: 60 }
  near(nextRow(first, [{ pod: 1, at: 900, load: more }], 1_000).capacity, 8.73)
  assert.equal(nextRow(first, [{ pod: 1, at: 15_900, load: more }], 16_000).capacity, null)
  assert.equal(isNews(first, nextRow(first, [{ pod: 1, at: 900, load }], 1_000), 1_000), false)
  assert.equal(isNews(first, nextRow(first, [{ pod: 1, at: 900, load: more }], 1_000), 1_000), true)
  assert.equal(
    isNews(first, nextRow(first, [{ pod: 1, at: 6_000, load }], 6_000), 6_000),
    true,
    'the lease must be renewed',
  )
})

/** The row after 300 rounds of eight pods. Two of them always have `calls` calls to send; no call is refused. */
function rowAfter(capacity: number, calls: number): LedgerRow {
  let row: LedgerRow = { ...of(capacity), gen: 0, shares: {}, safe: 1, expiresMs: 15_000 }
  for (let nowMs = 1_000; nowMs <= 300_000; nowMs += 1_000) {
    const told = Array.from({ length: 8 }, (_, index) => {
      const { share = 0, ok = 0 } = row.shares[index + 1] ?? {}
      const peak = index < 2 ? Math.min(share, calls) : 0
      const load = { gen: row.gen, inFlight: peak, peak, want: index < 2 ? calls : 1 }
      return {
        pod: index + 1,
        at: nowMs,
        load: { ...load, most: 200, ok: ok + peak, refused: 0, firstsMs: [] },
      }
    })
    row = nextRow(row, told, nowMs)
  }
  return row
}

test('a capacity grows while the pods that need it use their shares, however many other pods are idle', () => {
  for (const capacity of [10, 4]) {
    const { shares, capacity: grown } = rowAfter(capacity, 20)
    for (const pod of [1, 2]) {
      const { share } = shares[pod]!
      assert.ok(share >= 20, `from ${capacity}: pod ${pod} has ${share}`)
    }
    assert.ok(grown! <= 60, `from ${capacity}: grown to ${grown}, more than they need`)
  }
  assert.equal(rowAfter(10, 1).capacity, 10, 'no pod lacks any')
  assert.equal(rowAfter(4, 1).capacity, 4, 'no pod lacks any')
})

test('the share of a pod that stops goes to others at once', () => {
  const load = { gen: 0, inFlight: 9, peak: 9, want: 9, most: 20, ok: 0, refused: 0, firstsMs: [] }
  const row: LedgerRow = { ...of(10), gen: 0, shares: {}, safe: 1, expiresMs: 15_000 }
  const one = nextRow(row, [{ pod: 1, at: 0, load }], 0)
  const both = [
    { pod: 1, at: 900, load: { ...load, gen: 1, most: 0 } },
    { pod: 2, at: 900, load },
  ]
  const next = nextRow(one, both, 1_000)
  assert.equal(one.shares[1]!.share, 10)
  assert.equal(next.shares[1], undefined)
  assert.equal(next.shares[2]!.share, 10)
  assert.equal(nextRow(one, both.slice(1), 1_000).shares[2]!.share, 0, 'a silent pod keeps its share')
})
