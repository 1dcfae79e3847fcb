// Follows the inbox of a user: first its newest sessions, then whole items as they change. Several changes of a session within a slot
// of 100 ms make one item, and a slow reader gets the newest state instead of each one. A follower holds one frame at a time, and
// remembers of each session what it was sent last: an item or a removal, and its `rev`. Guarantees:
//   I1  a connected follower eventually receives the current state of every session
//   I2  an item is sent only if its `rev` is higher than that of the item sent before
//   I3  of a session that the user has left it gets the id and a `rev`, and nothing more
import {
  formatId,
  INBOX_LIMITS,
  type InboxFrame,
  type InboxItem,
  type InboxTotals,
} from '@fleetline/protocol'
import type { BudgetShare, ByteBudget } from '../lib/byte-budget.ts'
import type { Clock } from '../lib/clock.ts'
import type { FollowListener } from '../session/follow.ts'
import { itemOf, type ShownSession } from './item.ts'
import type { InboxPages, InboxRange } from './pages.ts'
import { isThere, type InboxReading, type InboxUser } from './reading.ts'
import type { InboxMarks, InboxWatch, SentState } from './watch.ts'

/** Ends when the signal is aborted, or when what was sent is void. A generator that is never started must still be ended. */
export type InboxFollowing = (listener: FollowListener) => AsyncGenerator<InboxFrame, void, undefined>

export type InboxFollow = {
  /** `show` and `limit` are those of the first frame. Later ones have any session that changes. */
  readonly follow: (user: InboxUser, range: Omit<InboxRange, 'after'>) => Promise<InboxFollowing>
}

type Deps = InboxPages &
  Pick<InboxReading, 'one' | 'newest'> &
  Pick<InboxWatch, 'enter'> & {
    /** Reserves the place of one follower. Throws if the pod has reached its limit. */
    readonly reserve: () => { readonly leave: () => void }
    readonly budget: ByteBudget
    readonly clock: Clock
    readonly cell: number
  }

const SLOT_MS = 100
const MOST_ITEMS = 50
/** After this many sessions the stream ends and the reader reconnects, so that `sent` stays bounded. */
const MOST_SENT = 5 * INBOX_LIMITS.newest
const NONE: InboxTotals = { unreadTotal: 0, attentionTotal: 0 }
const ITEM_BYTES = 4_000 // in memory, as read, as an item, as text and as bytes being sent

export function createInboxFollow(deps: Deps): InboxFollow {
  return {
    follow: async (user, range) => {
      const place = deps.reserve()
      try {
        const sent = new Map<string, SentState>()
        const marks = await deps.enter(user, sent)
        const leave = () => {
          marks.leave()
          place.leave()
        }
        return (listener) =>
          tell({ ...deps, ...listener, user, marks, leave, sent, told: NONE, isVoid: false }, range)
      } catch (error) {
        place.leave()
        throw error
      }
    },
  }
}

type Start = Deps &
  FollowListener & {
    readonly user: InboxUser
    readonly marks: InboxMarks
    readonly leave: () => void
    /** By session, what was sent last. */
    readonly sent: Map<string, SentState>
    /** The totals that it was sent. */
    told: InboxTotals
    /** A session was read in a state before the one that was sent: the log is another one, after a restore or a failover. */
    isVoid: boolean
  }

async function* tell(start: Start, range: Omit<InboxRange, 'after'>): ReturnType<InboxFollowing> {
  const { signal, marks, user, budget, newest } = start
  const share = budget.open(start.cut)
  try {
    if (signal.aborted) return
    await share.take(range.limit * ITEM_BYTES, signal)
    const { rows, next } = await start.page(user, range, () => newest(user))
    const items = newsOf(start, rows)
    share.keep(items.length * ITEM_BYTES)
    start.told = marks.totals()
    yield { type: 'inbox', revision: 1, reset: true, items, removed: [], next, ...start.told }
    share.done()
    for (let revision = 2; !isOver(start) && start.sent.size <= MOST_SENT;) {
      const isTold = yield* nextChanges(start, share, revision)
      if (isTold) revision += 1
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    share.close()
    start.leave()
  }
}

function isOver({ signal, marks, isVoid }: Start): boolean {
  return signal.aborted || marks.isOver() || isVoid
}

/** Yields the next changes. Returns whether there were any. */
async function* nextChanges(
  start: Start,
  share: BudgetShare,
  revision: number,
): AsyncGenerator<InboxFrame, boolean> {
  const { signal, marks, user, one, clock, sent, cell } = start
  await marks.marked(signal)
  await clock.sleep(SLOT_MS - (clock.monotonicMs() % SLOT_MS), signal) // followers share the slots, and so their reads
  if (isOver(start)) return false
  await share.take(MOST_ITEMS * ITEM_BYTES, signal)
  const taken = marks.take(MOST_ITEMS)
  const looks = await Promise.all(taken.map(({ session }) => one({ ...user, session })))
  const rows = looks.filter(isThere)
  const removed = looks.flatMap((look, index) => {
    const { session, rev } = taken[index]!
    marks.know(taken[index]!, isThere(look) ? look : undefined)
    if (isThere(look)) return []
    const now = look.rev ?? Math.max(sent.get(session)?.rev ?? -1, rev ?? 0) + 1
    if (!isNews(start, session, { rev: now, is: 'removed' })) return []
    return [{ session: formatId('session', cell, session), rev: now }]
  })
  const items = newsOf(start, rows)
  if (start.isVoid) return false
  share.keep(taken.length * ITEM_BYTES)
  const [before, totals] = [start.told, marks.totals()]
  const areTotalsNews =
    totals.unreadTotal !== before.unreadTotal || totals.attentionTotal !== before.attentionTotal
  const isTold = items.length > 0 || removed.length > 0 || areTotalsNews
  start.told = totals
  if (isTold) yield { type: 'inbox', revision, reset: false, items, removed, ...totals }
  share.done()
  return isTold
}

/** The items that are newer than what was sent. */
function newsOf(start: Start, rows: readonly ShownSession[]): InboxItem[] {
  return rows.flatMap((row) => {
    const item = itemOf(row, start.cell)
    const is = item.archived ? 'archived' : 'listed'
    return isNews(start, row.session, { rev: item.rev, is }) ? [item] : []
  })
}

/** Remembers what is sent now, if it is newer than what was sent. A session may be marked twice, and so be read unchanged; but after an
 *  item every removal is newer, and after a removal every item. */
function isNews(start: Start, session: string, now: SentState): boolean {
  const last = start.sent.get(session)
  if (last && now.rev <= last.rev) {
    if ((last.is === 'removed') !== (now.is === 'removed')) start.isVoid = true
    return false
  }
  start.sent.set(session, now)
  return true
}
