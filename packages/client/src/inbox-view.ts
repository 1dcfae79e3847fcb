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
  /** Of the loaded pages, the item that comes last on this device. What comes behind it is not shown until its page is loaded. */
  readonly edge: InboxItem | undefined
  /** How many pages after the first one are loaded. */
  readonly pages: number
  /** How many were loaded at most: so many are loaded again when the list begins again. */
  readonly wanted: number
  /** What was shown when the list began again. It is shown behind the edge until the wanted pages are loaded. */
  readonly old: ReadonlyMap<string, InboxItem>
}

export const EMPTY_INBOX: InboxView = {
  items: new Map(),
  gone: new Map(),
  reads: new Map(),
  totals: { unreadTotal: 0, attentionTotal: 0 },
  next: null,
  edge: undefined,
  pages: 0,
  wanted: 0,
  old: new Map(),
}

export function takeFrame(view: InboxView, frame: InboxFrame, show: InboxShow): InboxView {
  const { unreadTotal, attentionTotal, next = view.next } = frame
  const before = frame.reset ? { ...begunAgain(view, show), edge: lastOf(frame.items, show) } : view
  const [items, gone, reads] = [new Map(before.items), new Map(before.gone), new Map(before.reads)]
  for (const { session, rev } of frame.removed) {
    gone.set(session, Math.max(rev, gone.get(session) ?? 0))
    if ((items.get(session)?.rev ?? -1) >= rev) continue // the user was added again
    items.delete(session)
    reads.delete(session)
  }
  const known = { ...before, items, gone, reads, totals: { unreadTotal, attentionTotal }, next }
  return withItems(known, frame.items)
}

export function takePage(view: InboxView, { items, next }: InboxPage, show: InboxShow): InboxView {
  const edge = lastOf(view.edge ? [view.edge, ...items] : items, show)
  const pages = view.pages + 1
  const wanted = Math.max(pages, view.wanted)
  const old = pages < wanted ? view.old : EMPTY_INBOX.old
  return withItems({ ...view, next, edge, pages, wanted, old }, items)
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
export function itemsOf(view: InboxView, show: InboxShow): readonly InboxItem[] {
  return loadedOf(view, show)
    .map((item) => shownOf(item, view.reads.get(item.session)))
    .filter((item) => fits(item, show))
    .toSorted(orderOf(show))
}

function loadedOf({ items, gone, next, edge, old }: InboxView, show: InboxShow): readonly InboxItem[] {
  const isBehind = (item: InboxItem) => next !== null && edge !== undefined && orderOf(show)(item, edge) > 0
  return [
    ...Array.from(items.values()).filter((item) => !isBehind(item) || old.has(item.session)),
    ...Array.from(old.values()).filter(
      (item) => isBehind(item) && !items.has(item.session) && !gone.has(item.session),
    ),
  ]
}

/** Before its first page is taken. Without further pages, that page is all that is shown. */
function begunAgain(view: InboxView, show: InboxShow): InboxView {
  const { reads, wanted } = view
  const old = wanted > 0 ? new Map(loadedOf(view, show).map((item) => [item.session, item])) : EMPTY_INBOX.old
  return { ...EMPTY_INBOX, reads, wanted, old }
}

/** In the order of this device. The server sorts by microseconds, and an item of its page may have changed since it was sorted. */
function lastOf(items: readonly InboxItem[], show: InboxShow): InboxItem | undefined {
  return items.toSorted(orderOf(show)).at(-1)
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

function orderOf(show: InboxShow): (a: InboxItem, b: InboxItem) => number {
  return show === 'attention' ? byAttention : byTime
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
