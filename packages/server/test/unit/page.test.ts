// What the page of a dev fleet counts, and which pods its chaos kills.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createChaos, CHAOS_MS } from '../../src/cli/dev/page/chaos.ts'
import { createScoring } from '../../src/cli/dev/page/score.ts'
import type { DevPod } from '../../src/cli/dev/pods.ts'
import { atEnd } from '../support/cleanup.ts'
import { manualClock } from '../support/clock.ts'

type Entry = { readonly id: string; readonly seq: number; readonly turn?: string; readonly answers?: number }

const { signal } = new AbortController()
const LOG: readonly Entry[] = [
  { id: 'a', seq: 1 },
  { id: 'b', seq: 2, turn: 't1', answers: 1 },
  { id: 'c', seq: 3 },
  { id: 'd', seq: 4, turn: 't2', answers: 3 },
]

/** A log that is read two entries at a time. */
function scoringOf(log: { entries: readonly Entry[] }) {
  return createScoring(manualClock(), async (after) => {
    const rest = log.entries.filter(({ seq }) => seq > after)
    return { items: rest.slice(0, 2), head: log.entries.at(-1)?.seq ?? 0 }
  })
}

async function scoreOf(entries: readonly Entry[], ...acks: readonly Entry[]) {
  const scoring = scoringOf({ entries })
  assert.equal(scoring.get(), null)
  for (const ack of acks) scoring.acked(ack)
  await scoring.check(signal)
  return scoring.get()
}

test('an acknowledged message that is in the log is neither lost nor doubled', async () => {
  const acks = [
    { id: 'a', seq: 1 },
    { id: 'c', seq: 3 },
    { id: 'c', seq: 3 }, // acknowledged again
  ]
  assert.deepEqual(await scoreOf(LOG, ...acks), { acked: 2, lost: 0, doubled: 0 })
  assert.deepEqual(await scoreOf([]), { acked: 0, lost: 0, doubled: 0 })
})

test('an acknowledged message that is missing, or at another seq, is lost', async () => {
  assert.deepEqual(await scoreOf(LOG, { id: 'x', seq: 3 }), { acked: 1, lost: 1, doubled: 0 })
  assert.deepEqual(await scoreOf(LOG, { id: 'a', seq: 3 }), { acked: 1, lost: 1, doubled: 0 })
  assert.deepEqual(await scoreOf([], { id: 'a', seq: 1 }), { acked: 1, lost: 1, doubled: 0 })
})

test('a message that disappears from the log is lost, even if it was never acknowledged', async () => {
  const log = { entries: LOG }
  const scoring = scoringOf(log)
  await scoring.check(signal)
  log.entries = LOG.slice(0, 3)
  await scoring.check(signal)
  assert.deepEqual(scoring.get(), { acked: 0, lost: 1, doubled: 0 })
})

test('a repeated message, a second reply of a turn, and a second reply to a message are doubled', async () => {
  for (const again of [
    { id: 'a', seq: 5 },
    { id: 'e', seq: 5, turn: 't2' },
    { id: 'e', seq: 5, turn: 't3', answers: 3 },
  ])
    assert.equal((await scoreOf([...LOG, again]))!.doubled, 1, JSON.stringify(again))
})

test('a failed reading leaves the score as it was, for ten seconds', async () => {
  let isAway = false
  const clock = manualClock()
  const scoring = createScoring(clock, async () => {
    if (isAway) throw new Error('away')
    return { items: LOG, head: 4 }
  })
  await scoring.check(signal)
  isAway = true
  await assert.rejects(scoring.check(signal))
  await clock.advance(9_999)
  assert.deepEqual(scoring.get(), { acked: 0, lost: 0, doubled: 0 })
  await clock.advance(1)
  assert.equal(scoring.get(), null)
})

test('chaos kills a ready pod again and again, while it is on and somebody watches', async (t) => {
  const clock = manualClock()
  const killed: string[] = []
  let isWatched = true
  const pods = ['starting', 'ready', 'paused'].map(
    (state) => ({ name: state, standing: () => ({ state }) }) as unknown as DevPod,
  )
  const chaos = createChaos({
    clock,
    random: { unit: () => 0.999, bytes: () => new Uint8Array() },
    pods,
    isWatched: () => isWatched,
    kill: ({ name }) => killed.push(name),
  })
  await chaos.start()
  atEnd(t, () => chaos.stop())
  const pass = () => clock.advance(CHAOS_MS)
  await pass()
  assert.deepEqual(killed, [])
  chaos.set(true)
  await pass()
  await pass()
  assert.deepEqual(killed, ['ready', 'ready'])
  isWatched = false
  await pass()
  assert.equal(killed.length, 2)
  assert.equal(chaos.isOn(), false)
})
