// Followers of one inbox while reads are late, hints are lost, and what was read is older than what is known. The stored rows are in
// this process; `integration/inbox` has PostgreSQL.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPages } from '../../src/inbox/pages.ts'
import { createInboxFollow } from '../../src/inbox/follow.ts'
import type { ShownSession } from '../../src/inbox/item.ts'
import type { InboxUser } from '../../src/inbox/reading.ts'
import { createWatch } from '../../src/inbox/watch.ts'
import { createByteBudget } from '../../src/lib/byte-budget.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { manualClock } from '../support/clock.ts'

const ADA: InboxUser = { tenant: 1, user: 'ada', sessions: undefined }
const [ONE, OTHER] = ['00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002']

function rowOf(session: string, head = 0): ShownSession {
  const counts = { head, epoch: 0, version: 0, replied: 0, failedEpoch: null, updatedUs: 0 }
  const cursor = { read: 0, readVersion: 0, seenEpoch: 0, archived: false }
  const shown = { alias: null, title: null, agent: null, since: null, role: null, text: null }
  return { session, turn: null, compacting: null, ...counts, ...cursor, ...shown }
}

/** `hold` keeps the next read until it is let go. It returns what was stored when it began, or, if it is late, when it ended. */
function setUp() {
  const rows = new Map([ONE, OTHER].map((id) => [id, rowOf(id)]))
  const clock = manualClock()
  const held = new Map<string, { readonly until: Promise<void>; readonly isLate: boolean }>()
  const [reads, running]: [string[], { now: number; most: number }] = [[], { now: 0, most: 0 }]
  const listeners: { topic?: (topic: string) => void; source?: (source: 'poll' | 'reconnect') => void } = {}
  const read = async <Value>(what: string, value: () => Value): Promise<Value> => {
    reads.push(what)
    const [found, wait] = [value(), held.get(what)]
    held.delete(what)
    running.now += 1
    running.most = Math.max(running.most, running.now)
    await wait?.until
    await new Promise((resolve) => setImmediate(resolve))
    running.now -= 1
    return wait?.isLate ? value() : found
  }
  const reading = {
    newest: ({ user }: InboxUser) => read(`newest of ${user}`, () => [...rows.values()]),
    one: ({ session }: { session: string }) => read(session, () => rows.get(session)!),
    page: () => read('page', () => [...rows.values()]),
  }
  const watch = createWatch({
    ...reading,
    clock,
    metrics: createMetrics(),
    hints: {
      send: () => undefined,
      listen: (_, listener) => {
        listeners.source = listener
        return () => undefined
      },
      listenTo: (kind, listener) => {
        if (kind === 's') listeners.topic = listener
        return () => undefined
      },
    },
  })
  const budget = createByteBudget({ clock, most: 1_000_000_000, holdMs: 1_000, onCut: () => undefined })
  const { follow } = createInboxFollow({
    ...reading,
    ...createPages(reading),
    ...watch,
    budget,
    clock,
    cell: 0,
    reserve: () => ({ leave: () => undefined }),
  })
  const settle = async () => {
    for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setImmediate(resolve))
  }
  const pass = async () => {
    await settle()
    await clock.advance(200)
    await settle()
  }
  return {
    reads,
    running,
    pass,
    settle,
    store: (session: string, head: number) => void rows.set(session, rowOf(session, head)),
    hint: (session: string) => listeners.topic!(`s:1:${session}`),
    tick: (source: 'poll' | 'reconnect') => listeners.source!(source),
    hold: (what: string, { isLate = false } = {}) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      held.set(what, { until: promise, isLate })
      return resolve
    },
    /** What a device of Ada has: the head of the session, and the totals. */
    device: async (user = ADA, beforePage = () => undefined as void) => {
      const [heads, seen] = [new Map<string, number>(), { unreadTotal: -1, isOver: false }]
      const frames = (await follow(user, { show: 'all', limit: 50 }))({
        signal: new AbortController().signal,
        cut: () => undefined,
      })
      const listen = async () => {
        for await (const { items, unreadTotal } of frames) {
          for (const { session, head } of items) heads.set(session, head)
          seen.unreadTotal = unreadTotal
        }
        seen.isOver = true
      }
      beforePage()
      void listen()
      await settle()
      return {
        heads: () => [...heads.values()].toSorted((a, b) => a - b),
        unread: () => seen.unreadTotal,
        isOver: () => seen.isOver,
      }
    },
  }
}

test('totals follow although the first page has shown the change already', async () => {
  const { store, hint, device, pass } = setUp()
  const { heads, unread } = await device(ADA, () => store(ONE, 1)) // after the totals were read, and before the page
  assert.deepEqual([heads(), unread()], [[0, 1], 0])
  hint(ONE)
  await pass()
  assert.deepEqual([heads(), unread()], [[0, 1], 1])
})

test('I1: if one device reads a newer state, the other devices get it even if the hint was lost', async () => {
  const { store, hint, hold, device, pass } = setUp()
  const [phone, laptop] = [await device(), await device()]
  store(ONE, 1)
  const letGo = hold(ONE, { isLate: true })
  hint(ONE)
  await pass() // both read it; the read of the phone takes longer
  store(ONE, 2) // and this hint is lost
  letGo()
  await pass()
  await pass()
  assert.deepEqual(
    [phone.heads(), laptop.heads()],
    [
      [0, 2],
      [0, 2],
    ],
  )
})

test('a stale poll does not end the stream of a device that already has a newer state', async () => {
  const { store, hint, hold, tick, device, pass } = setUp()
  const phone = await device()
  for (let round = 1; round <= 4; round += 1) {
    const letGo = hold('newest of ada')
    tick('poll')
    store(ONE, round)
    hint(ONE)
    await pass()
    letGo()
    await pass()
  }
  assert.deepEqual([phone.isOver(), phone.heads()], [false, [0, 4]])
})

test('after hints come back, the sessions of all users are read, in groups', async () => {
  const { reads, running, tick, device, settle } = setUp()
  for (let n = 0; n < 1_500; n += 1) await device({ ...ADA, user: `u${n}` })
  reads.length = running.most = 0
  tick('reconnect')
  await settle()
  const users = new Set(reads.filter((what) => what.startsWith('newest')))
  assert.equal(users.size, 1_500)
  assert.ok(running.most <= 700, `${running.most} at once`) // each has two sessions: 2,000 rows are 667 users
})
