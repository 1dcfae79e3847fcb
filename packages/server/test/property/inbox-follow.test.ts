// Followers of one inbox over random histories: messages, reads, turns, members that come and go, reads that take long, hints that are
// late or lost, devices that join and leave. After some polls each device has what is stored, totals included. These mistakes in
// `inbox/watch` make the test fail (all were tried): what was sent is not compared with what is read; a session that was read in an older
// state twice is not read again; nor is one that its user had left when it was read, and that is known again by then.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InboxFrame, InboxItem } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { itemOf, sessionRev, standingOf, totalsOf, type ShownSession } from '../../src/inbox/item.ts'
import type { InboxReading, InboxUser } from '../../src/inbox/reading.ts'
import { manualClock } from '../support/clock.ts'
import { inboxParts, turns } from '../support/inbox-parts.ts'

const ADA: InboxUser = { tenant: 1, user: 'ada', sessions: undefined }
const SESSIONS = ['00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002']
const CHANGES = ['message', 'own', 'read', 'turn', 'add', 'remove'] as const
const OTHERS = ['join', 'leave', 'poll', 'reconnect'] as const
const FIRST_DEVICES = 2
const MOST_DEVICES = 4
const POLLS = 3

type Change = (typeof CHANGES)[number]
type Event = {
  /** How many turns of the event loop it waits. */
  readonly turns: number
  readonly what: Change | (typeof OTHERS)[number]
  readonly session: string
  /** How the pod learns of it: its own commit, a hint, or not at all. */
  readonly told: 'own' | 'hint' | 'lost'
  /** How far the clock moves then. Followers read every 100 ms. */
  readonly ms: number
}
const event: fc.Arbitrary<Event> = fc.record({
  turns: fc.nat(4),
  what: fc.constantFrom(...CHANGES, ...CHANGES, ...OTHERS),
  session: fc.constantFrom(...SESSIONS),
  told: fc.constantFrom('own', 'hint', 'lost'),
  ms: fc.constantFrom(0, 0, 60, 120),
})
const history = fc.array(event, { minLength: 20, maxLength: 60, size: 'max' })
/** How many turns a read takes before it looks, and after it has looked. Reads take these in turn. */
type Delay = [before: number, after: number]
const delays = fc.array(fc.tuple(fc.nat(6), fc.nat(6)), { minLength: 10, maxLength: 20, size: 'max' })

const [ENTER, SAY]: readonly [Event, Event] = [
  { turns: 20, what: 'poll', session: SESSIONS[0]!, told: 'lost', ms: 100 },
  { turns: 20, what: 'message', session: SESSIONS[0]!, told: 'own', ms: 100 },
]
const UNTOLD: Event = { ...SAY, turns: 4, told: 'lost', ms: 0 }
const [LEAVE, COME]: readonly [Event, Event] = [
  { ...UNTOLD, what: 'remove' },
  { ...UNTOLD, what: 'add' },
]
const EXAMPLES: [Event[], Delay[]][] = [
  // The first page shows a session that was added and removed between two reads of the newest sessions.
  [
    [
      { ...LEAVE, turns: 0 },
      { ...COME, turns: 6 },
      { ...LEAVE, turns: 20 },
    ],
    [
      [4, 4],
      [9, 0],
    ],
  ],
  // Twice the second device reads an older state than the first one.
  [
    [ENTER, ENTER, ENTER, SAY, UNTOLD, SAY, UNTOLD],
    [
      [9, 0],
      [0, 12],
      [0, 12],
      [9, 0],
    ],
  ],
  // The second device reads that its user was removed, when the first one has read that it was added again.
  [
    [ENTER, ENTER, ENTER, SAY, { ...LEAVE, turns: 0 }, COME],
    [
      [9, 0],
      [4, 12],
    ],
  ],
]

type Stored = { readonly row: ShownSession; readonly isMember: boolean }

function newSession(session: string): Stored {
  const counts = { head: 0, epoch: 0, version: 0, replied: 0, failedEpoch: null, updatedUs: 0 }
  const cursor = { read: 0, readVersion: 0, seenEpoch: 0, archived: false }
  const shown = { alias: null, title: null, agent: null, since: null, role: null, text: null }
  return { row: { session, turn: null, compacting: null, ...counts, ...cursor, ...shown }, isMember: true }
}

/** Returns the same if nothing changes. */
function changed(now: Stored, what: Change): Stored {
  const { row, isMember } = now
  const appended = { ...row, head: row.head + 1, updatedUs: row.updatedUs + 1 }
  const read = (of: ShownSession) => ({ ...of, read: of.head, readVersion: of.readVersion + 1 })
  if (what === 'message') return { row: appended, isMember }
  if (what === 'turn' && row.turn)
    return { row: { ...appended, turn: null, replied: appended.head }, isMember }
  if (what === 'turn') return { row: { ...row, turn: row.session, epoch: row.epoch + 1 }, isMember }
  if (what === 'add')
    return isMember ? now : { row: { ...row, read: 0, readVersion: 0, seenEpoch: 0 }, isMember: true }
  if (!isMember) return now
  if (what === 'own') return { row: read(appended), isMember }
  if (what === 'read') return row.read < row.head ? { row: read(row), isMember } : now
  return { row: { ...row, version: row.version + row.readVersion + 2 }, isMember: false }
}

/** The stored sessions, and reads that see them at some moment while they run. */
function storeOf(delays: readonly Delay[]) {
  const sessions = new Map(SESSIONS.map((session) => [session, newSession(session)]))
  const members = () => [...sessions.values()].filter(({ isMember }) => isMember).map(({ row }) => row)
  const slow = () => {
    let reads = 0
    return async <Value>(look: () => Value): Promise<Value> => {
      const [before, after] = delays[reads++ % delays.length]!
      await turns(before)
      const found = look()
      await turns(after)
      return found
    }
  }
  const [ofOne, ofMany] = [slow(), slow()]
  const look = (session: string) => {
    const { row, isMember } = sessions.get(session)!
    return isMember ? row : ({ isGone: true, rev: sessionRev(row) - 1 } as const)
  }
  const reading: InboxReading = {
    newest: () => ofMany(members),
    page: () => ofMany(members),
    one: ({ session }) => ofOne(() => look(session)),
  }
  return { sessions, members, reading }
}

type Follow = ReturnType<typeof inboxParts>['follow']
type Shown = { readonly items: Map<string, InboxItem>; totals: object; readonly broken: string[] }

/** The device of a follower. It takes so many turns for a frame. */
function device(slowness: number) {
  const [shown, revs]: [Shown, Map<string, number>] = [
    { items: new Map(), totals: {}, broken: [] },
    new Map(),
  ]
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  const take = ({ items, removed, unreadTotal, attentionTotal }: InboxFrame) => {
    for (const { session, rev } of [...items, ...removed]) {
      const last = revs.get(session) ?? -1
      if (rev <= last) shown.broken.push(`${session}: rev ${rev} after ${last}`)
      revs.set(session, rev)
    }
    for (const item of items) shown.items.set(item.session, item)
    for (const { session } of removed) shown.items.delete(session)
    shown.totals = { unreadTotal, attentionTotal }
  }
  const join = async (follow: Follow) => {
    const following = await follow(ADA, { show: 'all', limit: 50 })
    for await (const frame of following({ signal: leaving.signal, cut: leave })) {
      take(frame)
      await turns(slowness)
    }
    if (!leaving.signal.aborted) shown.broken.push('ended')
  }
  return { shown, join, leave, hasLeft: () => leaving.signal.aborted }
}

/** Plays the events. Returns what is stored, and what each device shows. */
async function play(events: readonly Event[], delays: readonly Delay[]) {
  const { sessions, members, reading } = storeOf(delays)
  const clock = manualClock()
  const [pod, otherPod] = [inboxParts(reading, clock), inboxParts(reading, clock)]
  const devices: ReturnType<typeof device>[] = []
  const join = () => {
    const one = device(devices.length * 3)
    devices.push(one)
    one.join(pod.follow).catch((error: unknown) => one.shown.broken.push(String(error)))
  }
  const commitOn = (parts: typeof pod, session: string, what: Change) => {
    if (what === 'own' || what === 'read') parts.cursorsMoved([{ tenant: 1, session, user: 'ada' }])
    if (what === 'add' || what === 'remove') parts.membersMoved(1, 'ada', session)
    else if (what !== 'read') parts.moved([{ tenant: 1, session }])
  }
  const hint = async ({ session, turns: late }: Event, what: Change) => {
    commitOn(otherPod, session, what)
    const topics = otherPod.sent.splice(0)
    await turns(late)
    for (const topic of [...topics, `s:1:${session}`]) pod.hint(topic)
  }
  const act = (event: Event) => {
    const { what, session, told } = event
    if (what === 'poll' || what === 'reconnect') return pod.tick(what)
    if (what === 'join') return devices.length < MOST_DEVICES && join()
    if (what === 'leave') return devices.length > 1 && devices[0]!.leave()
    const before = sessions.get(session)!
    const now = changed(before, what)
    sessions.set(session, now)
    if (now !== before && told === 'own') commitOn(pod, session, what)
    if (now !== before && told === 'hint') void hint(event, what)
  }
  for (let joined = 0; joined < FIRST_DEVICES; joined += 1) join()
  for (const event of events) {
    await turns(event.turns)
    act(event)
    await turns(1) // followers that were marked begin to sleep
    if (event.ms > 0) await clock.advance(event.ms)
  }
  await turns(30)
  for (let polls = 0; polls < POLLS; polls += 1) {
    pod.tick('poll')
    await turns(30)
    await clock.advance(250)
    await turns(30)
  }
  const staying = devices.filter((one) => !one.hasLeft())
  devices.forEach(({ leave }) => leave())
  return {
    staying,
    items: members().map((row) => itemOf(row, 0)),
    totals: totalsOf(members().map(standingOf)),
  }
}

test('I1 I3: after some polls each follower has what is stored, although hints were late or lost', async () => {
  await fc.assert(
    fc.asyncProperty(history, delays, async (events, slowness) => {
      const { staying, items, totals } = await play(events, slowness)
      for (const { shown } of staying) {
        assert.deepEqual(shown.broken, [])
        assert.deepEqual([...shown.items.values()].toSorted(bySession), items)
        assert.deepEqual(shown.totals, totals)
      }
    }),
    // the limit is also that of the search for a shorter history
    { numRuns: 150, examples: EXAMPLES, interruptAfterTimeLimit: 30_000 },
  )
})

function bySession(a: InboxItem, b: InboxItem): number {
  return a.session < b.session ? -1 : 1
}
