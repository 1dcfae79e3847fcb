// A device over random histories of an inbox. Frames after the first page come in any order, some of them twice, and some not at all
// if a later one of their session came. The device ends with what a new snapshot shows. The mutants are mistakes that the test finds:
// the last frame wins; a removal is forgotten; a removal counts less than the item before it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InboxFrame, InboxItem } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { itemOf, sessionRev, type ShownSession } from '../../../server/src/inbox/item.ts'
import { createPages, parsePlace } from '../../../server/src/inbox/pages.ts'
import {
  EMPTY_INBOX,
  itemsOf,
  markRead,
  settleRead,
  takeFrame,
  takePage,
  type InboxView,
} from '../../src/inbox-view.ts'

const HAPPENINGS = [
  'message',
  'own',
  'start',
  'done',
  'fail',
  'stop',
  'read',
  'title',
  'remove',
  'add',
] as const
type Happening = { readonly session: number; readonly what: (typeof HAPPENINGS)[number] }
const happenings = fc.array(fc.record({ session: fc.nat(2), what: fc.constantFrom(...HAPPENINGS) }), {
  maxLength: 40,
})

type Stored = { row: ShownSession; isMember: boolean }

function newSession(n: number): Stored {
  const session = `0000000${n}-0000-7000-8000-000000000000`
  const counts = { head: 0, epoch: 0, version: 0, replied: 0, failedEpoch: null, updatedUs: 0 }
  const cursor = { read: 0, readVersion: 0, seenEpoch: 0, archived: false }
  const shown = { alias: null, title: null, agent: null, since: null, role: null, text: null }
  return { row: { session, turn: null, compacting: null, ...counts, ...cursor, ...shown }, isMember: true }
}

function happen({ row, isMember }: Stored, what: Happening['what'], us: number): Stored {
  const appended = { ...row, head: row.head + 1, updatedUs: us }
  const ended = { turn: null }
  const read = (now: ShownSession) => ({
    ...now,
    read: now.head,
    readVersion: now.readVersion + 1,
    seenEpoch: now.turn === null ? now.epoch : now.epoch - 1,
  })
  const next = (): ShownSession => {
    if (what === 'message') return appended
    if (what === 'own') return isMember ? read(appended) : appended
    if (what === 'read') return isMember ? read(row) : row
    if (what === 'title') return { ...row, title: `title ${us}`, version: row.version + 1 }
    if (what === 'remove' && isMember) return { ...row, version: row.version + row.readVersion + 2 }
    if (what === 'add' && !isMember) return { ...row, read: 0, readVersion: 0, seenEpoch: 0 }
    if (what === 'start') return row.turn === null ? { ...row, turn: row.session, epoch: row.epoch + 1 } : row
    if (row.turn === null) return row
    if (what === 'done') return { ...appended, ...ended, replied: appended.head, failedEpoch: null }
    if (what === 'fail') return { ...row, ...ended, failedEpoch: row.epoch, updatedUs: us }
    return what === 'stop' ? { ...row, ...ended, epoch: row.epoch + 1, failedEpoch: null } : row
  }
  return { row: next(), isMember: what === 'add' || (isMember && what !== 'remove') }
}

const frameOf = (
  items: readonly InboxItem[],
  removed: InboxFrame['removed'] = [],
  reset = false,
): InboxFrame => ({
  type: 'inbox',
  revision: 1,
  reset,
  items,
  removed,
  unreadTotal: 0,
  attentionTotal: 0,
})

/** The frames of a history, by session, and what a new snapshot shows at its end. */
function tellAll(history: readonly Happening[]) {
  const stored = [0, 1, 2].map(newSession)
  const first = frameOf(
    stored.map(({ row }) => itemOf(row, 0)),
    [],
    true,
  )
  const told: InboxFrame[][] = [[], [], []]
  for (const [n, { session, what }] of history.entries()) {
    const before = stored[session]!
    const now = (stored[session] = happen(before, what, n + 1))
    const item = itemOf(now.row, 0)
    if (now.isMember) told[session]!.push(frameOf([item]))
    else if (before.isMember)
      told[session]!.push(frameOf([], [{ session: item.session, rev: sessionRev(now.row) - 1 }]))
  }
  const items = stored.filter(({ isMember }) => isMember).map(({ row }) => itemOf(row, 0))
  return { first, told, last: frameOf(items, [], true) }
}

type Take = (view: InboxView, frame: InboxFrame) => InboxView
const take: Take = (view, frame) => takeFrame(view, frame, 'all')

function holds(takeOne: Take): void {
  fc.assert(
    fc.property(happenings, fc.infiniteStream(fc.nat(9)), (history, draws) => {
      const draw = () => Number(draws.next().value)
      const { first, told, last } = tellAll(history)
      const kept = told.flatMap((frames) => frames.filter((_, n) => n === frames.length - 1 || draw() < 7))
      const twice = [...kept, ...kept.filter(() => draw() < 3)]
      const shuffled = twice
        .map((frame) => ({ frame, at: draw() * 10 + draw() }))
        .toSorted((a, b) => a.at - b.at)
        .map(({ frame }) => frame)
      const view = [first, ...shuffled].reduce<InboxView>(takeOne, EMPTY_INBOX)
      assert.deepEqual(itemsOf(view, 'all'), itemsOf(take(EMPTY_INBOX, last), 'all'))
    }),
    { numRuns: 300 },
  )
}

test('I2: frames in any order and repeated end as the snapshot; the mutants do not', () => {
  holds(take)
  const mutants: Record<string, Take> = {
    'the last frame wins': (view, frame) =>
      take(
        { ...view, items: new Map([...view.items].map(([id, item]) => [id, { ...item, rev: -1 }])) },
        frame,
      ),
    'a removal is forgotten': (view, frame) => ({ ...take(view, frame), gone: new Map() }),
    'a removal counts less': (view, frame) =>
      take(view, { ...frame, removed: frame.removed.map((one) => ({ ...one, rev: one.rev - 1 })) }),
  }
  for (const [name, mutant] of Object.entries(mutants)) assert.throws(() => holds(mutant), Error, name)
})

test('an own read shows at once, and an older item does not take it back', () => {
  const { row } = newSession(1)
  const item = itemOf({ ...row, head: 3, replied: 3 }, 0)
  const shows = (view: InboxView) =>
    itemsOf(view, 'all').map(({ read, unread, attention }) => [read, unread, attention])
  const view = take(EMPTY_INBOX, frameOf([item], [], true))
  assert.deepEqual(shows(view), [[0, 3, 'finished']])
  const read = markRead(view, item.session, 3)
  assert.deepEqual(shows(read), [[3, 0, null]])
  const grown = itemOf({ ...row, head: 4, replied: 4 }, 0)
  assert.deepEqual(shows(take(read, frameOf([grown]))), [[3, 1, 'finished']])
  const stored = itemOf({ ...row, head: 4, replied: 4, read: 4, readVersion: 1 }, 0)
  assert.deepEqual(shows(take(read, frameOf([stored]))), [[4, 0, null]])
})

test('a failure is seen once the session is read to its end, and not before', () => {
  const { row } = newSession(1)
  const failed = itemOf({ ...row, head: 5, read: 5, replied: 4, epoch: 1, failedEpoch: 1 }, 0)
  const shows = (view: InboxView) => itemsOf(view, 'all').map(({ attention }) => attention)
  const view = take(EMPTY_INBOX, frameOf([failed], [], true))
  assert.deepEqual(shows(view), ['failed'])
  const early = markRead(view, failed.session, 3)
  assert.deepEqual([shows(early), shows(settleRead(early, failed.session, 3, 5))], [['failed'], ['failed']])
  const seen = markRead(view, failed.session, 5)
  assert.deepEqual([shows(seen), shows(settleRead(seen, failed.session, 5, 5))], [[null], [null]])
  assert.deepEqual(shows(settleRead(seen, failed.session, 5)), ['failed'], 'the read was rejected')
})

test('an own read does not outlast the removal of the user', () => {
  const { row } = newSession(1)
  const item = itemOf({ ...row, head: 1 }, 0)
  const read = markRead(take(EMPTY_INBOX, frameOf([item], [], true)), item.session, 1)
  const removed = take(read, frameOf([], [{ session: item.session, rev: 5 }]))
  const again = take(removed, frameOf([itemOf({ ...row, head: 1, version: 5 }, 0)]))
  assert.deepEqual(
    itemsOf(again, 'all').map(({ unread }) => unread),
    [1],
  )
})

const session = fc.record({
  us: fc.nat(3_000), // some in the same millisecond
  state: fc.constantFrom('failed', 'working', 'finished'),
  /** While this page is read, it gets a message. */
  grows: fc.nat(6),
})
const inboxes = fc.array(session, { minLength: 2, maxLength: 8 })
const views = fc.constantFrom('all', 'unread', 'attention')
type Inbox = typeof inboxes extends fc.Arbitrary<infer Value> ? Value : never

function rowsOf(inbox: Inbox): Map<string, ShownSession> {
  return new Map(
    inbox.map(({ us, state }, n) => {
      const { row } = newSession(n)
      const by = {
        failed: { epoch: 1, failedEpoch: 1 },
        working: { epoch: 1, turn: row.session },
        finished: { replied: 1 },
      }
      return [row.session, { ...row, head: 1, updatedUs: us, ...by[state] }]
    }),
  )
}

/** After each page, the device shows the sessions of all pages that it has loaded. */
async function showsPages(take: typeof takePage): Promise<void> {
  await fc.assert(
    fc.asyncProperty(inboxes, views, fc.integer({ min: 1, max: 4 }), async (inbox, show, limit) => {
      const rows = rowsOf(inbox)
      const pages = createPages({
        page: async () => [],
        one: async ({ session }) => rows.get(session)!,
      })
      const user = { tenant: 1, user: 'ada', sessions: [...rows.keys()] }
      const [loaded, totals] = [new Set<string>(), { unreadTotal: 0, attentionTotal: 0 }]
      let view = EMPTY_INBOX
      for (let [number, cursor]: [number, string | null] = [0, '']; cursor !== null; number += 1) {
        const newest = async () => {
          const before = [...rows.values()]
          for (const [n, { grows }] of inbox.entries()) {
            const row = before[n]!
            if (grows === number) rows.set(row.session, { ...row, head: row.head + 1, updatedUs: 9_000 + n })
          }
          return before
        }
        const { rows: found, next } = await pages.page(
          user,
          { show, after: parsePlace(cursor), limit },
          newest,
        )
        const items = found.map((row) => itemOf(row, 0))
        const first = { ...frameOf(items, [], true), next }
        view = number === 0 ? takeFrame(view, first, show) : take(view, { items, next, ...totals }, show)
        for (const { session } of items) loaded.add(session)
        assert.deepEqual(new Set(itemsOf(view, show).map(({ session }) => session)), loaded)
        cursor = next
      }
    }),
    { numRuns: 300 },
  )
}

test('each page shows its sessions, also those that changed while it was read; the mutant does not', async () => {
  await showsPages(takePage)
  const mutant: typeof takePage = (view, page, show) => ({
    ...takePage(view, page, show),
    edge: page.items.at(-1),
  })
  await assert.rejects(showsPages(mutant))
})
