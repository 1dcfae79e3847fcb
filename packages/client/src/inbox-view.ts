// What a device knows of an inbox, and how frames and own reads change it. Pure. Frames may be repeated, and come in any order after
// the first page: of two items of a session, the one with the higher `rev` counts.
import {
  ATTENTIONS,
  type InboxFrame,
  type InboxItem,
  type InboxPage,
  type InboxShow,
  type InboxTotals,
} from '@fleetline/protocol'

export type InboxView = {
  readonly items: ReadonlyMap<string, InboxItem>
  /** Sessions of which the user is not a member any more, by the `rev` from which on that is so. */
  readonly gone: ReadonlyMap<string, number>
  /** Own reads that no item shows yet: up to which seq. */
  readonly reads: ReadonlyMap<string, number>
  readonly totals: InboxTotals
  /** Of the next page; null if there is none. */
  readonly next: string | null
  /** The last item of the last page that was loaded. What comes behind it is not shown until that page is loaded. */
  readonly edge: InboxItem | undefined
}

export const EMPTY_INBOX: InboxView = {
  items: new Map(),
  gone: new Map(),
  reads: new Map(),
  totals: { unreadTotal: 0, attentionTotal: 0 },
  next: null,
  edge: undefined,
}

export function takeFrame(view: InboxView, frame: InboxFrame): InboxView {
  const { unreadTotal, attentionTotal, next = view.next } = frame
  const before = frame.reset ? { ...EMPTY_INBOX, reads: view.reads } : view
  const gone = new Map(before.gone)
  const items = new Map(before.items)
  for (const { session, rev } of frame.removed) {
    if ((items.get(session)?.rev ?? -1) < rev) items.delete(session)
    gone.set(session, Math.max(rev, gone.get(session) ?? 0))
  }
  const edge = frame.reset ? frame.items.at(-1) : view.edge
  const known = { ...before, gone, items, totals: { unreadTotal, attentionTotal }, next, edge }
  return withItems(known, frame.items)
}

export function takePage(view: InboxView, { items, next }: InboxPage): InboxView {
  return withItems({ ...view, next, edge: items.at(-1) ?? view.edge }, items)
}

/** Shows the session as read, until an item does, or the read is rejected. */
export function markRead(view: InboxView, session: string, seq: number): InboxView {
  const reads = new Map(view.reads).set(session, Math.max(seq, view.reads.get(session) ?? 0))
  return { ...view, reads }
}

/** The read is stored, up to this seq; or it was rejected (undefined). A later read of the same session stays. */
export function settleRead(view: InboxView, session: string, seq: number, stored?: number): InboxView {
  if (view.reads.get(session) !== seq) return view
  const reads = new Map(view.reads)
  const { read = 0, head = 0, attention } = view.items.get(session) ?? {}
  // a failed session that was read to its end stays marked as read until its next item, which no longer shows the failure
  const hasSeenFailure = attention === 'failed' && seq >= head
  const isShown = stored !== undefined && stored <= read && !hasSeenFailure
  if (stored === undefined || isShown) reads.delete(session)
  else reads.set(session, stored)
  return { ...view, reads }
}

/** The sessions of this part of the inbox, the newest first; those that need attention, by what they need. */
export function itemsOf({ items, reads, next, edge }: InboxView, show: InboxShow): readonly InboxItem[] {
  const compare = show === 'attention' ? byAttention : byTime
  const isLoaded = (item: InboxItem) => next === null || edge === undefined || compare(item, edge) <= 0
  return Array.from(items.values())
    .filter(isLoaded)
    .map((item) => shownOf(item, reads.get(item.session)))
    .filter((item) => fits(item, show))
    .toSorted(compare)
}

function withItems(view: InboxView, fresh: readonly InboxItem[]): InboxView {
  const [items, reads] = [new Map(view.items), new Map(view.reads)]
  for (const item of fresh) {
    if (item.read >= (reads.get(item.session) ?? 0)) reads.delete(item.session)
    const least = Math.max(items.get(item.session)?.rev ?? -1, view.gone.get(item.session) ?? -1)
    if (item.rev > least) items.set(item.session, item)
  }
  return { ...view, items, reads }
}

/** With the own read, if it goes further than what is stored. */
function shownOf(item: InboxItem, seq: number | undefined): InboxItem {
  if (seq === undefined) return item
  const read = Math.max(item.read, Math.min(item.head, seq))
  const isSeen = (item.attention === 'failed' ? seq : read) >= item.head && item.attention !== 'working'
  return { ...item, read, unread: item.head - read, attention: isSeen ? null : item.attention }
}

function fits({ archived, unread, attention }: InboxItem, show: InboxShow): boolean {
  if (show === 'archived' || archived) return show === 'archived' && archived
  if (show === 'unread') return unread > 0
  return show === 'all' || attention !== null
}

function byAttention(a: InboxItem, b: InboxItem): number {
  return rankOf(a) - rankOf(b) || byTime(a, b)
}

function byTime(a: InboxItem, b: InboxItem): number {
  return order(b.updatedAt, a.updatedAt) || order(b.session, a.session)
}

function rankOf({ attention }: InboxItem): number {
  return attention === null ? ATTENTIONS.length : ATTENTIONS.indexOf(attention)
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
