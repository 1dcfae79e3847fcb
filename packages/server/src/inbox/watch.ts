// Knows the newest sessions of each user whose inbox is followed on this pod, and marks those that may have changed. A mark carries
// nothing: the follower reads the session again, and finds out whether it has changed. Guarantees:
//   I1  a change is marked at once if this pod made it, by a hint if another pod made it, and by the next reading of the user's
//       sessions if the hint was lost
//   I3  a session that its user has left is marked like one that has changed; the follower then finds nothing
//
//   what happens                                       what is marked, or read
//   this pod commits, or a hint names a session        the session, for its users that are followed here
//   a user reads                                       the session, for this user
//   a user is added to a session, or removed           the session, for this user; the user's newest sessions are read and compared
//                                                      with those known, and with those that each follower was sent
//   each poll                                          the same for some users, in turn: about `POLL_ROWS` sessions in all; and of
//                                                      each of their followers, `ARCHIVED` sessions that it was sent as archived
//   hints arrive again after a cut                     the same for all users
//   a session is twice found older than it was known   the followers of its user end, so that they begin again: the log is another
//                                                      one, after a restore or a failover that lost the end of the log
// Reads of one user are `AGAIN_MS` apart, and one statement reads several users, so that many changes cost few reads.
// Limit: of other sessions beyond a user's newest 1,000, only hints that the user was added or removed count. Other changes of such a session
// are found by the next poll of its user after it has a new message.
import { hash } from 'node:crypto'
import { INBOX_LIMITS, type InboxTotals } from '@fleetline/protocol'
import { Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { nameOf, type CursorMove, type SessionKey } from '../session/items.ts'
import type { Hints } from '../store/hints.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { revOf, standingOf, totalsOf, type InboxStanding, type MemberSession } from './item.ts'
import type { InboxReading, InboxUser } from './reading.ts'

/** What one follower waits for. */
export type InboxMarks = {
  /** Resolves when a session is marked, the follower has to end, or the signal is aborted. */
  readonly marked: (signal: AbortSignal) => Promise<void>
  /** Takes marked sessions, each with the `rev` that it is known to have. */
  readonly take: (most: number) => readonly Mark[]
  /** Call it with what was read of a marked session. Undefined: the user is no member. */
  readonly know: (mark: Mark, row: MemberSession | undefined) => void
  readonly totals: () => InboxTotals
  /** What the follower was sent is void. */
  readonly isOver: () => boolean
  readonly leave: () => void
}
type Mark = { readonly session: string; readonly rev: number | undefined }

/** What a follower was last sent of a session: an item (`archived` if the session is), or its removal. */
export type SentState = { readonly rev: number; readonly is: 'listed' | 'archived' | 'removed' }
type SentStates = ReadonlyMap<string, SentState>

export type InboxWatch = {
  /** Resolves when the user's newest sessions are known. The follower keeps `sent` up to date. */
  readonly enter: (user: InboxUser, sent: SentStates) => Promise<InboxMarks>
  /** Call it after a commit that changed these sessions. */
  readonly moved: (sessions: Iterable<SessionKey>) => void
  /** Call it after a commit that moved these cursors. */
  readonly cursorsMoved: (cursors: readonly Pick<CursorMove, 'tenant' | 'session' | 'user'>[]) => void
  /** Call it after a commit that added the user to a session, or removed it. Without a session: to one that is new. */
  readonly membersMoved: (tenant: number, user: string, session?: string) => void
  readonly close: () => void
}

type Deps = Pick<InboxReading, 'newest'> & {
  readonly hints: Pick<Hints, 'listen' | 'listenTo' | 'send'>
  readonly metrics: Metrics
  readonly clock: Clock
}

type Group = {
  readonly name: string
  readonly user: InboxUser
  readonly known: Map<string, InboxStanding>
  /** Sessions that the last read found older than they were known. */
  older: ReadonlySet<string>
  readonly followers: Set<Follower>
  /** While the newest sessions are read: those that were named meanwhile. */
  named: Set<string> | undefined
  /** When the last read began. */
  readMs: number
  reading: Promise<Named> | undefined
  /** The read after the one that is under way. */
  next: Promise<Named> | undefined
}
/** Sessions that were named during a read: what was read of them may be older than their change. */
type Named = ReadonlySet<string>
type Follower = {
  readonly sent: SentStates
  readonly marks: Set<string>
  /** Sessions that this follower took and is reading. */
  readonly taken: Set<string>
  /** Sessions of which it has last read a state that was older than what is known, and the `rev` of that state. */
  readonly older: Map<string, number>
  /** At which of the sessions that it was sent as archived the next poll goes on. */
  nextArchived: number
  isOver: boolean
  wake: () => void
}

const POLL_ROWS = 2_000
const ARCHIVED = 10 // sessions that each follower reads again in a poll
const AGAIN_MS = 100
const MEMBER_TOPIC = /^(m:\d+:\w+):([0-9a-f]{32})$/
/** Sessions that a pod knows, of all its followed users. At this number it takes no more users, and beyond it ends the followers of the
 *  user whose sessions have become more. Each takes about 440 bytes, with what one follower remembers. */
const MOST_KNOWN = 250_000

export function createWatch(deps: Deps): InboxWatch {
  const { hints, metrics } = deps
  const groups = createGroups()
  metrics.gauge('inboxFollowers', () => [[{}, groups.followers()]])
  metrics.gauge('inboxSessions', () => [[{}, groups.knownSessions()]])

  const read = (group: Group): Promise<Named> => {
    group.readMs = deps.clock.monotonicMs()
    return (group.reading = readAgain(deps, groups, group))
  }
  const refresh = (group: Group): Promise<Named> => {
    if (group.next) return group.next
    const restMs = () => group.readMs + AGAIN_MS - deps.clock.monotonicMs()
    if (!group.reading && restMs() <= 0) return read(group)
    const soon = async () => {
      if (restMs() > 0) await deps.clock.sleep(restMs())
      group.next = undefined
      return read(group)
    }
    return (group.next = Promise.resolve(group.reading).then(soon, soon))
  }
  const refreshQuietly = (group: Group) => void refresh(group).catch(() => undefined) // a poll reads again
  const polls = createPolls(groups, refresh)
  const named = (key: SessionKey) => {
    for (const group of groups.withSession(nameOf(key))) mark(group, key.session)
    for (const group of groups.reading) if (group.user.tenant === key.tenant) group.named?.add(key.session)
  }
  const readBy = (topic: string, session: string) => {
    for (const group of groups.withTopic(topic)) {
      if (group.known.has(session)) mark(group, session)
      group.named?.add(session)
    }
  }
  /** Marks the session even if it is not known: a page may have shown it. */
  const memberMoved = (topic: string, session: string) => {
    for (const group of groups.withTopic(topic)) {
      if (group.user.sessions?.includes(session) === false) continue // the token of its followers does not name it
      mark(group, session)
      group.named?.add(session)
    }
  }
  const unlisten = [
    hints.listenTo('s', (topic) => {
      const [, tenant, session] = topic.split(':')
      named({ tenant: Number(tenant), session: session! })
    }),
    hints.listenTo('r', (topic) => {
      const [, tenant, session, user] = topic.split(':')
      readBy(`m:${tenant}:${user}`, uuidOf(session!))
    }),
    // A pod of the previous release knows only topics without a session, so each change of an old session sends both.
    hints.listenTo('m', (topic) => {
      const [, member, session] = MEMBER_TOPIC.exec(topic) ?? []
      if (member && session) memberMoved(member, uuidOf(session))
      else groups.withTopic(topic).forEach(refreshQuietly)
    }),
    hints.listen('inbox', (source) => {
      if (source === 'reconnect') polls.all()
      if (source === 'poll') void polls.next()
    }),
  ]
  return {
    enter: async (user, sent) => {
      const group = groups.get(user)
      const follower: Follower = {
        sent,
        marks: new Set(),
        taken: new Set(),
        older: new Map(),
        nextArchived: 0,
        isOver: false,
        wake: () => undefined,
      }
      group.followers.add(follower)
      const leave = () => groups.part(group, follower)
      try {
        if (!groups.reserve())
          throw new Retry(
            'unavailable',
            `This pod watches as many sessions for inboxes as it can (${MOST_KNOWN}). Connect through another pod`,
          )
        const named = await refresh(group).finally(groups.release)
        follower.marks.clear() // the page that is read now shows what was marked until now
        for (const session of named) if (group.known.has(session)) follower.marks.add(session) // totals may be older
      } catch (error) {
        leave()
        throw error
      }
      return marksOf(group, follower, { learn: groups.learn, leave })
    },
    moved: (sessions) => {
      for (const session of sessions) named(session)
    },
    cursorsMoved: (cursors) => {
      for (const { tenant, session, user } of cursors) {
        readBy(memberTopic(tenant, user), session)
        hints.send(`r:${tenant}:${hexOf(session)}:${digestOf(user)}`)
      }
    },
    membersMoved: (tenant, user, session) => {
      const topic = memberTopic(tenant, user)
      if (session !== undefined) memberMoved(topic, session)
      groups.withTopic(topic).forEach(refreshQuietly)
      hints.send(topic)
      if (session !== undefined) hints.send(`${topic}:${hexOf(session)}`)
    },
    close: () => unlisten.forEach((end) => end()),
  }
}

type Groups = ReturnType<typeof createGroups>

/** The users that are followed here, by name, by known session, and by the topic of their memberships. */
function createGroups() {
  const byName = new Map<string, Group>()
  const bySession = new Map<string, Set<Group>>()
  const byTopic = new Map<string, Set<Group>>()
  const reading = new Set<Group>()
  let [known, entering] = [0, 0]
  const learn = (group: Group, session: string, now: InboxStanding | undefined) => {
    const name = nameOf({ tenant: group.user.tenant, session })
    const isNew = now !== undefined && !group.known.has(session)
    if (now) group.known.set(session, now)
    else if (!group.known.delete(session)) return
    if (isNew) addTo(bySession, name, group)
    else if (!now) removeFrom(bySession, name, group)
    known += isNew ? 1 : now ? 0 : -1
  }
  return {
    reading,
    learn,
    knownSessions: () => known,
    followers: () =>
      Array.from(byName.values(), ({ followers }) => followers.size).reduce((a, b) => a + b, 0),
    all: (): Group[] => [...byName.values()],
    withSession: (name: string): Iterable<Group> => bySession.get(name) ?? [],
    withTopic: (topic: string): Group[] => [...(byTopic.get(topic) ?? [])],
    /** Room for the sessions of one more follower's user. */
    reserve: (): boolean => {
      if (known + (entering + 1) * INBOX_LIMITS.newest > MOST_KNOWN) return false
      entering += 1
      return true
    },
    release: () => void (entering -= 1),
    get: (user: InboxUser): Group => {
      const name = JSON.stringify([user.tenant, user.user, user.sessions?.toSorted() ?? null])
      const there = byName.get(name)
      if (there) return there
      const group: Group = {
        name,
        user,
        known: new Map(),
        older: new Set(),
        followers: new Set(),
        named: undefined,
        readMs: Number.NEGATIVE_INFINITY,
        reading: undefined,
        next: undefined,
      }
      byName.set(name, group)
      addTo(byTopic, memberTopic(user.tenant, user.user), group)
      return group
    },
    part: (group: Group, follower: Follower) => {
      if (!group.followers.delete(follower) || group.followers.size > 0) return
      for (const session of group.known.keys()) learn(group, session, undefined)
      byName.delete(group.name)
      removeFrom(byTopic, memberTopic(group.user.tenant, group.user.user), group)
    },
  }
}

function marksOf(
  group: Group,
  follower: Follower,
  { learn, leave }: Pick<Groups, 'learn'> & { readonly leave: () => void },
): InboxMarks {
  const { marks } = follower
  return {
    leave,
    isOver: () => follower.isOver,
    totals: () => totalsOf(group.known.values()),
    marked: async (signal) => {
      if (marks.size > 0 || follower.isOver || signal.aborted) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const wake = () => resolve()
      follower.wake = wake
      signal.addEventListener('abort', wake, { once: true })
      await promise
      signal.removeEventListener('abort', wake)
    },
    take: (most) => {
      const taken: Mark[] = []
      for (const session of marks) {
        if (taken.length >= most) break
        marks.delete(session)
        follower.taken.add(session)
        taken.push({ session, rev: group.known.get(session)?.rev })
      }
      return taken
    },
    know: ({ session, rev }, row) => {
      follower.taken.delete(session)
      const known = group.known.get(session)
      const older = row && known && revOf(row) < known.rev ? revOf(row) : undefined
      // Another follower has read a newer state: read again. If that finds nothing newer, the log may be another one.
      if (older !== undefined && older > (follower.older.get(session) ?? -1)) marks.add(session)
      if (older === undefined) follower.older.delete(session)
      else follower.older.set(session, older)
      if (!known) return
      const isLate = row ? revOf(row) <= known.rev : known.rev !== rev
      if (isLate && !row) marks.add(session) // its user may have been added again meanwhile
      if (isLate) return
      learn(group, session, row && !row.archived ? standingOf(row) : undefined)
      // a read of the newest sessions that is under way may be older: mark this session when it ends
      group.named?.add(session)
      for (const other of group.followers)
        if (other !== follower && !other.taken.has(session)) {
          other.marks.add(session)
          other.wake()
        }
    },
  }
}

/** Reads the newest sessions of a user, and marks those that differ from what was known. Returns those that were named meanwhile. */
async function readAgain(deps: Deps, groups: Groups, group: Group): Promise<Named> {
  const named = (group.named = new Set<string>())
  groups.reading.add(group)
  try {
    const rows = await deps.newest(group.user)
    if (group.followers.size > 0) compare(groups, group, { rows, named })
    return named
  } finally {
    groups.reading.delete(group)
    group.named = group.reading = undefined
  }
}

type Found = { readonly rows: readonly MemberSession[]; readonly named: Named }

function compare({ learn, knownSessions }: Groups, group: Group, { rows, named }: Found): void {
  const before = knownSessions()
  const here = new Map(rows.filter(({ archived }) => !archived).map((row) => [row.session, row]))
  for (const session of [...group.known.keys()].filter((one) => !here.has(one))) {
    mark(group, session)
    learn(group, session, undefined)
  }
  // The user may have been added, and removed, since the last read. If there are more sessions than were read, it may be an old one.
  if (rows.length < INBOX_LIMITS.newest)
    for (const follower of group.followers)
      for (const [session, { is }] of follower.sent)
        if (is === 'listed' && !here.has(session)) markFor(follower, session)
  const older = new Set<string>()
  for (const [session, row] of here) {
    const known = group.known.get(session)
    if (known && revOf(row) < known.rev && !named.has(session)) older.add(session)
    const isNewer = !known || known.rev < revOf(row) || (group.older.has(session) && older.has(session))
    if (isNewer) learn(group, session, standingOf(row))
    if (isNewer || named.has(session)) mark(group, session)
  }
  const isOtherLog = [...older].some((session) => group.older.has(session))
  const hasOutgrown = knownSessions() > Math.max(before, MOST_KNOWN)
  if (isOtherLog || hasOutgrown) end(group)
  group.older = older
}

function end({ followers }: Group): void {
  for (const follower of followers) {
    follower.isOver = true
    follower.wake()
  }
}

function mark({ followers }: Group, session: string): void {
  for (const follower of followers) markFor(follower, session)
}

/** The newest sessions do not show whether the user is still a member of an archived one. So each poll has some of them read again, in turn.
 *  Returns how many. */
function markArchived({ followers }: Group): number {
  let count = 0
  for (const follower of followers) {
    const archived = [...follower.sent].filter(([, { is }]) => is === 'archived')
    const first = follower.nextArchived < archived.length ? follower.nextArchived : 0
    const due = archived.slice(first, first + ARCHIVED)
    for (const [session] of due) markFor(follower, session)
    follower.nextArchived = first + due.length
    count += due.length
  }
  return count
}

function markFor({ marks, wake }: Follower, session: string): void {
  marks.add(session)
  wake()
}

/** `next` reads the sessions of the next users, about `POLL_ROWS` sessions in all. `all` reads those of every user, in batches of that
 *  size. Batches are small because hints that arrive during a read are kept for each user in it. */
function createPolls({ all }: Groups, refresh: (group: Group) => Promise<unknown>) {
  let [due, isRunning, isAllWanted]: [Group[], boolean, boolean] = [[], false, false]
  const take = (): Group[] => {
    if (due.length === 0) due = all()
    const taken = new Set<Group>()
    for (let rows = 0; rows < POLL_ROWS;) {
      const group = due.pop()
      if (!group) break
      if (group.followers.size === 0) continue
      taken.add(group)
      rows += group.known.size + 1 + markArchived(group)
    }
    return [...taken]
  }
  const next = async () => {
    if (isRunning) return
    isRunning = true
    do
      await Promise.allSettled(take().map(refresh)) // a failed read is repeated in a later poll
    while (isAllWanted && due.length > 0)
    isAllWanted = isRunning = false
  }
  return {
    next,
    all: () => {
      ;[due, isAllWanted] = [all(), true]
      void next()
    },
  }
}

/** A topic is short and plain; an id of a user need not be. */
function digestOf(user: string): string {
  return hash('sha256', user).slice(0, 16)
}

function memberTopic(tenant: number, user: string): string {
  return `m:${tenant}:${digestOf(user)}`
}

function hexOf(uuid: string): string {
  return uuid.replaceAll('-', '')
}

function uuidOf(hex: string): string {
  return [8, 12, 16, 20, 32].map((end, n) => hex.slice([0, 8, 12, 16, 20][n], end)).join('-')
}

function addTo<Value>(sets: Map<string, Set<Value>>, name: string, value: Value): void {
  sets.set(name, (sets.get(name) ?? new Set()).add(value))
}

function removeFrom<Value>(sets: Map<string, Set<Value>>, name: string, value: Value): void {
  const set = sets.get(name)
  set?.delete(value)
  if (set?.size === 0) sets.delete(name)
}
