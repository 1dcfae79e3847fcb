// What the leader learns from what pods tell, and what they tell.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { learnCapacity, UNLEARNT, type Capacity, type RoundSum } from '../../src/throttle/fleet/capacity.ts'
import { isNews, nextRow, type LedgerRow } from '../../src/throttle/fleet/ledger.ts'
import { countEnd, emptyTally, setHeld, takeLoad } from '../../src/throttle/pod/tally.ts'

const CALM: RoundSum = { inFlight: 0, peak: 0, left: 0, spare: 0, ok: 0, refused: 0, firstsMs: [] }

function of(capacity: number | null, memory: Partial<Capacity['memory']> = {}): Capacity {
  return { capacity, memory: { ...UNLEARNT.memory, ...memory } }
}
/** As much at once as in the mean, unless it says otherwise. */
const after = (before: Capacity, seen: Partial<RoundSum>) =>
  learnCapacity(before, { ...CALM, peak: seen.inFlight ?? 0, ...seen }, 1_000)
const near = (value: number | null, wanted: number) => assert.ok(Math.abs(value! - wanted) < 1e-9, `${value}`)

test('unknown until something is refused; then what was in flight, a little less', () => {
  assert.equal(after(UNLEARNT, { inFlight: 50, ok: 500 }).capacity, null)
  assert.equal(
    after(UNLEARNT, { inFlight: 50, ok: 500, refused: 5 }).capacity,
    null,
    'under one in a hundred',
  )
  near(after(UNLEARNT, { inFlight: 50, ok: 400, refused: 5 }).capacity, 48.5)
  assert.equal(after(UNLEARNT, { inFlight: 0.2, refused: 1 }).capacity, 1)
})

test('of a first burst, what was left of it; as long as more of it is refused, anew', () => {
  const first = after(UNLEARNT, { inFlight: 4, peak: 200, left: 105, refused: 95 })
  near(first.capacity, 101.85)
  const second = after(first, { inFlight: 10, peak: 105, left: 10, refused: 95 })
  near(second.capacity, 9.7)
  const calm = after(second, { inFlight: 9, left: 9, ok: 2 })
  const later = after(calm, { inFlight: 9, left: 1, ok: 8, refused: 1 })
  near(later.capacity, 0.97 * 9) // by the mean from now on
})

test('refusals cut by .03 at least, by .3 at most, and a clean row is counted anew', () => {
  const cut = after(of(100, { okSince: 900, samples: [1, 2] }), { inFlight: 100, ok: 90, refused: 10 })
  near(cut.capacity, 97)
  assert.deepEqual([cut.memory.okSince, cut.memory.samples, cut.memory.isRefusing], [0, [], true])
  near(after(of(100), { inFlight: 80, ok: 90, refused: 10 }).capacity, 77.6)
  near(after(of(100), { inFlight: 10, ok: 90, refused: 10 }).capacity, 70)
})

test('grows with calls that go well while it is in use, faster after seven clean round trips, and after eleven', () => {
  near(after(of(100), { inFlight: 85, ok: 50 }).capacity, 100.6)
  assert.equal(after(of(100), { inFlight: 84.9, ok: 50 }).capacity, 100, 'not in use')
  near(after(of(100, { okSince: 649 }), { inFlight: 85, ok: 50 }).capacity, 100.6)
  near(after(of(100, { okSince: 650 }), { inFlight: 85, ok: 50 }).capacity, 101.6)
  near(after(of(100, { okSince: 1_049 }), { inFlight: 85, ok: 50 }).capacity, 101.6)
  near(after(of(100, { okSince: 1_050 }), { inFlight: 85, ok: 50 }).capacity, 105)
  assert.equal(
    after(of(100), { inFlight: 100, ok: 1_000, refused: 1 }).capacity,
    100,
    'a single refusal holds',
  )
  near(after(of(4.7), { inFlight: 3.4, ok: 4 }).capacity, 4.748)
  near(after(of(100), { inFlight: 30, peak: 85, ok: 50 }).capacity, 100.6) // short calls, with gaps between them
  near(after(of(100), { inFlight: 34, spare: 60, ok: 50 }).capacity, 100.6)
  assert.equal(after(of(100), { inFlight: 33.9, spare: 60, ok: 50 }).capacity, 100)
})

test('of calls much shorter than a round no more than one round trip counts: pods hear of a round once', () => {
  const grown = after(of(100, { okSince: 100 }), { inFlight: 100, ok: 5_000 })
  near(grown.capacity, 101.2)
  assert.equal(grown.memory.okSince, 200)
})

test('any refusal, and a cut for slowness, begin the clean round trips anew', () => {
  const clean = { okSince: 900 }
  assert.equal(after(of(100, clean), { inFlight: 100, ok: 1_000, refused: 1 }).memory.okSince, 0)
  const slow = after(of(100, { ...clean, ratio: 1.4 }), { inFlight: 100, ok: 10 })
  assert.deepEqual([slow.capacity, slow.memory.okSince], [93, 0])
})

test('cut once it has become slow to begin, for all pods together; held while a little slow', () => {
  const times = (ms: number) => Array.from({ length: 60 }, () => ms)
  const usual = after(of(100), { inFlight: 90, ok: 0, firstsMs: times(100) })
  const slow = after(usual, { inFlight: 90, ok: 100, firstsMs: times(136) })
  near(slow.capacity, 83.7)
  assert.equal(
    after(slow, { inFlight: 90, ok: 100 }).capacity,
    slow.capacity,
    'in doubt until the next window',
  )
  near(after(slow, { inFlight: 90, ok: 100, firstsMs: times(100) }).capacity, slow.capacity! * 1.012)
  near(after(of(null, usual.memory), { inFlight: 50, firstsMs: times(200) }).capacity, 46.5)
  const half = after(usual, { firstsMs: times(300).slice(30) })
  const late = learnCapacity(half, { ...CALM, firstsMs: times(300).slice(30) }, 70_000)
  assert.equal(late.memory.medians.length, 1, 'what did not fill a window within a minute is no part of it')
  const calm = learnCapacity(slow, { ...CALM, peak: 90, ok: 10 }, 61_001)
  near(calm.capacity, slow.capacity! + 0.12)
})

test('a load: the mean in flight without what was refused; totals; a want that rises fast and falls slowly', () => {
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
  assert.equal(takeLoad(late, { ...standing, nowMs: 4_000 }).load.inFlight, 0, 'no less than nothing')
})

test('of many first tokens 32 are told, of the whole round', () => {
  let [tally, chance] = [emptyTally(0), 0.5]
  for (let ms = 0; ms < 1_000; ms += 1) {
    chance = (chance * 7.77) % 1
    tally = countEnd(tally, { kind: 'ok', firstMs: ms, sentAtMs: 0 }, { nowMs: 0, chance })
  }
  const { firstsMs } = takeLoad(tally, { nowMs: 1, waiting: 0, most: 9, gen: 1 }).load
  assert.equal(firstsMs.length, 32)
  assert.ok(firstsMs.some((ms) => ms > 500) && firstsMs.some((ms) => ms < 500))
})

test('a row: what a pod told before the row knew it is not counted, nor what nobody led', () => {
  const load = { gen: 0, inFlight: 9, peak: 9, want: 9, most: 20, ok: 1_000, refused: 50, firstsMs: [] }
  const first = nextRow(undefined, [{ pod: 1, at: 0, load }], 0)
  assert.deepEqual([first.capacity, first.safe, first.shares[1]!.share], [null, 1, 20])
  const more = { ...load, ok: 1_050, refused: 60 }
  assert.ok(Math.abs(nextRow(first, [{ pod: 1, at: 900, load: more }], 1_000).capacity! - 8.73) < 1e-9)
  assert.equal(nextRow(first, [{ pod: 1, at: 15_900, load: more }], 16_000).capacity, null)
  assert.equal(isNews(first, nextRow(first, [{ pod: 1, at: 900, load }], 1_000), 1_000), false)
  assert.equal(isNews(first, nextRow(first, [{ pod: 1, at: 900, load: more }], 1_000), 1_000), true)
  assert.equal(
    isNews(first, nextRow(first, [{ pod: 1, at: 6_000, load }], 6_000), 6_000),
    true,
    'to be renewed',
  )
})

/** After 300 rounds of eight pods, of which two have so many calls to send, one behind the other; none is refused. */
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

test('a capacity grows while those who need it use what they may, however many are idle beside them', () => {
  for (const capacity of [10, 4]) {
    const { shares, capacity: grown } = rowAfter(capacity, 20)
    assert.ok(shares[1]!.share >= 20 && shares[2]!.share >= 20, `from ${capacity}`)
    assert.ok(grown! <= 60, 'and no longer than they need it')
  }
  assert.deepEqual([rowAfter(10, 1).capacity, rowAfter(4, 1).capacity], [10, 4], 'nobody lacks any')
})

test('what a pod had that has stopped goes to others at once', () => {
  const load = { gen: 0, inFlight: 9, peak: 9, want: 9, most: 20, ok: 0, refused: 0, firstsMs: [] }
  const row: LedgerRow = { ...of(10), gen: 0, shares: {}, safe: 1, expiresMs: 15_000 }
  const one = nextRow(row, [{ pod: 1, at: 0, load }], 0)
  const both = [
    { pod: 1, at: 900, load: { ...load, gen: 1, most: 0 } },
    { pod: 2, at: 900, load },
  ]
  const next = nextRow(one, both, 1_000)
  assert.deepEqual([one.shares[1]!.share, next.shares[1], next.shares[2]!.share], [10, undefined, 10])
  assert.equal(
    nextRow(one, both.slice(1), 1_000).shares[2]!.share,
    0,
    'one of which nothing is heard still has it',
  )
})
