// Followers of one inbox while reads are late, hints are lost, and what was read is older than what is known. The stored rows are in
// this process; `integration/inbox` has PostgreSQL.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InboxShow } from '@fleetline/protocol'
import { sessionRev, type ShownSession } from '../../src/inbox/item.ts'
import type { InboxReading, InboxUser } from '../../src/inbox/reading.ts'
import { manualClock } from '../support/clock.ts'
import { inboxParts, turns } from '../support/inbox-parts.ts'

const ADA: InboxUser = { tenant: 1, user: 'ada', sessions: undefined }
const [ONE, OTHER] = ['00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002']
const OLD = '00000000-0000-7000-8000-000000000003'
const MANY = Array.from({ length: 1_000 }, (_, n) => `00000000-0000-7000-8001-${String(n).padStart(12, '0')}`)

function rowOf(session: string, head = 0): ShownSession {
  const counts = { head, epoch: 0, version: 0, replied: 0, failedEpoch: null, updatedUs: 0 }
  const cursor = { read: 0, readVersion: 0, seenEpoch: 0, archived: false }
  const shown = { alias: null, title: null, agent: null, since: null, role: null, text: null }
  return { session, turn: null, compacting: null, ...counts, ...cursor, ...shown }
}

/** `hold` keeps the next read until it is let go. It returns what was stored when it began, or, if it is late, when it ended. `old`:
 *  sessions that are not among the newest. */
function setUp({
  ids = [ONE, OTHER],
  old = [],
  archived = [],
}: {
  ids?: readonly string[]
  old?: readonly string[]
  archived?: readonly string[]
} = {}) {
  const rows = new Map([...ids, ...old].map((id) => [id, rowOf(id)]))
  for (const id of archived) rows.set(id, { ...rowOf(id), archived: true })
  const gone = new Map<string, number>()
  const clock = manualClock()
  const held = new Map<string, { readonly until: Promise<void>; readonly isLate: boolean }>()
  const [reads, running]: [string[], { now: number; most: number }] = [[], { now: 0, most: 0 }]
  const read = async <Value>(what: string, value: () => Value): Promise<Value> => {
    reads.push(what)
    const [found, wait] = [value(), held.get(what)]
    held.delete(what)
    running.now += 1
    running.most = Math.max(running.most, running.now)
    await wait?.until
    await turns(1)
    running.now -= 1
    return wait?.isLate ? value() : found
  }
  const newest = () =>
    [...rows.values()].filter((row) => !old.includes(row.session) && !archived.includes(row.session))
  const reading: InboxReading = {
    newest: ({ user }) => read(`newest of ${user}`, newest),
    one: ({ session }) =>
      read(session, () => rows.get(session) ?? { isGone: true, rev: gone.get(session) ?? 0 }),
    page: (_, { isArchived }) =>
      read('page', () => (isArchived ? [...rows.values()].filter((row) => row.archived) : newest())),
  }
  const parts = inboxParts(reading, clock)
  const settle = () => turns(20)
  const pass = async () => {
    await settle()
    await clock.advance(200)
    await settle()
  }
  return {
    ...parts,
    clock,
    reads,
    running,
    pass,
    settle,
    store: (session: string, head: number) => void rows.set(session, rowOf(session, head)),
    /** By default, the `rev` of the removal is right. */
    remove: (session: string, rev?: number) => {
      gone.set(session, rev ?? sessionRev(rows.get(session)!) + 1)
      rows.delete(session)
    },
    named: (session: string) => parts.hint(`s:1:${session}`),
    hold: (what: string, { isLate = false } = {}) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      held.set(what, { until: promise, isLate })
      return resolve
    },
    /** What a device of Ada has: the head of the session, and the totals. */
    device: async (user = ADA, beforePage = () => undefined as void, show: InboxShow = 'all') => {
      const [heads, removed] = [new Map<string, number>(), [] as string[]]
      const seen = { unreadTotal: -1, isOver: false }
      const entered = parts.follow(user, { show, limit: 50 })
      await clock.advance(100) // reads of one user are so far apart
      const frames = (await entered)({ signal: new AbortController().signal, cut: () => undefined })
      const listen = async () => {
        for await (const frame of frames) {
          for (const { session, head } of frame.items) heads.set(session, head)
          for (const { session } of frame.removed) removed.push(session)
          seen.unreadTotal = frame.unreadTotal
        }
        seen.isOver = true
      }
      beforePage()
      void listen()
      await settle()
      return {
        heads: () => [...heads.values()].toSorted((a, b) => a - b),
        removed: () => removed.map((id) => id.slice(-1)),
        unread: () => seen.unreadTotal,
        isOver: () => seen.isOver,
      }
    },
  }
}

test('totals follow although the first page has shown the change already', async () => {
  const { store, named, device, pass } = setUp()
  const { heads, unread } = await device(ADA, () => store(ONE, 1)) // after the totals were read, and before the page
  assert.deepEqual([heads(), unread()], [[0, 1], 0])
  named(ONE)
  await pass()
  assert.deepEqual([heads(), unread()], [[0, 1], 1])
})

test('I1: if one device reads a newer state, the other devices get it even if the hint was lost', async () => {
  const { store, named, hold, device, pass } = setUp()
  const [phone, laptop] = [await device(), await device()]
  store(ONE, 1)
  const letGo = hold(ONE, { isLate: true })
  named(ONE)
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
  const { store, named, hold, tick, device, pass } = setUp()
  const phone = await device()
  for (let round = 1; round <= 4; round += 1) {
    const letGo = hold('newest of ada')
    tick('poll')
    store(ONE, round)
    named(ONE)
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

test('I3: a hint that names an old session has its removal sent, but not to a token that does not name it', async () => {
  const { reads, remove, hint, tick, device, pass } = setUp({ ids: MANY, old: [OLD] })
  const [phone, kiosk] = [await device(), await device({ ...ADA, sessions: [MANY[0]!] })]
  const { sent, membersMoved } = setUp() // another pod
  membersMoved(1, 'ada', OLD)
  const [short, long] = [sent[0]!, sent[1]!]
  hint(long)
  await pass()
  assert.deepEqual([phone.heads().length, kiosk.heads().length], [51, 50])
  reads.length = 0
  tick('poll')
  await pass()
  assert.deepEqual(reads, ['newest of ada', 'newest of ada'], 'a poll does not read old sessions again')
  remove(OLD)
  hint(long)
  await pass()
  assert.deepEqual([phone.removed(), kiosk.removed()], [['3'], []])
  reads.length = 0
  hint(short) // as the previous release sends it
  hint(`${long}:more`) // as a later release may send it
  await pass()
  assert.deepEqual(reads, ['newest of ada', 'newest of ada'])
  membersMoved(2 ** 31 - 1, 'ada', OLD)
  assert.ok(
    sent.every((topic) => /^[\w:.-]{1,64}$/.test(topic)),
    sent.join(),
  )
})

test('I3: a follower of archived sessions gets a removal although its hint was lost, after a few polls', async () => {
  const archived = MANY.slice(0, 25)
  const { reads, remove, tick, device, pass } = setUp({ archived })
  const phone = await device(ADA, undefined, 'archived')
  assert.equal(phone.heads().length, 25)
  reads.length = 0
  remove(archived[24]!)
  for (let polls = 0; polls < 3; polls += 1) {
    assert.deepEqual(phone.removed(), [])
    tick('poll')
    await pass()
  }
  assert.deepEqual(phone.removed(), ['4'])
  assert.equal(reads.length, 25 + 3, 'a poll reads ten of them, and the newest sessions')
})

test('I1: the totals count a session that was named while the device entered', async () => {
  const { store, named, hold, device, settle, pass } = setUp()
  const letGo = hold('newest of ada')
  const entering = device()
  await settle()
  store(ONE, 1)
  named(ONE)
  letGo()
  const { heads, unread } = await entering
  await pass()
  assert.deepEqual([heads(), unread()], [[0, 1], 1])
})

test('a removal that is older than the item before it ends the stream: the log is another one', async () => {
  const { store, remove, membersMoved, device, pass } = setUp()
  store(ONE, 5)
  const phone = await device()
  remove(ONE, 5)
  membersMoved(1, 'ada', ONE)
  await pass()
  assert.deepEqual([phone.isOver(), phone.removed()], [true, []])
})

test('an item that is older than the removal before it ends the stream; a removal that is found twice does not', async () => {
  const { store, remove, membersMoved, device, pass } = setUp()
  const phone = await device()
  remove(ONE, 9)
  for (let times = 0; times < 2; times += 1) {
    membersMoved(1, 'ada', ONE)
    await pass()
  }
  assert.deepEqual([phone.isOver(), phone.removed()], [false, ['1']])
  store(ONE, 9)
  membersMoved(1, 'ada', ONE)
  await pass()
  assert.deepEqual([phone.isOver(), phone.heads()], [true, [0, 0]])
})

test('reads of the newest sessions of one user are 100 ms apart', async () => {
  const { reads, clock, membersMoved, device, settle } = setUp()
  await device()
  reads.length = 0
  const counts: number[] = []
  for (const ms of [0, 99, 1, 99, 1]) {
    await clock.advance(ms)
    membersMoved(1, 'ada')
    await settle()
    counts.push(reads.length)
  }
  assert.deepEqual(counts, [1, 1, 2, 2, 3])
})

test('when the sessions of users have become more than a pod can watch, the followers of the last user are sent away', async () => {
  const { store, tick, follow, device, pass } = setUp({ ids: [] })
  const devices = []
  for (let n = 0; n < 251; n += 1) devices.push(await device({ ...ADA, user: `u${n}` }))
  for (const session of MANY) store(session, 0)
  tick('reconnect')
  await pass()
  assert.equal(devices.filter(({ isOver }) => isOver()).length, 1)
  const late = follow({ ...ADA, user: 'late' }, { show: 'all', limit: 50 })
  await assert.rejects(late, /watches as many sessions/)
})
