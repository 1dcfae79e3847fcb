// The inbox of a user on this device: its sessions, as they are now, and how far the user has read. It follows the inbox until it is
// closed.
import type { InboxItem, InboxPage, InboxShow, ReadAck, Session as SessionFacts } from '@fleetline/protocol'
import { ask, pathOf } from './ask.ts'
import type { Clock, Random } from './clock.ts'
import { refusalOf, unavailable } from './failure.ts'
import { createFeed } from './feed.ts'
import type { Http } from './http.ts'
import { NO_INBOX, type InboxSnapshot } from './inbox-snapshot.ts'
import {
  EMPTY_INBOX,
  itemsOf,
  markRead,
  settleRead,
  takeFrame,
  takePage,
  type InboxView,
} from './inbox-view.ts'
import { insist } from './insist.ts'
import type { Link } from './link.ts'
import { createListeners } from './listeners.ts'
import { napOf } from './nap.ts'
import type { SessionChange, Waking } from './session.ts'

export type InboxOptions = {
  /** `all`: all but archived ones. With `archived`, later changes of archived sessions are not shown. */
  readonly show?: InboxShow
  /** Whose inbox. Only in a back end with an API key; a token names its user. */
  readonly user?: string
}

export type Inbox = {
  /** The current snapshot. */
  readonly get: () => InboxSnapshot
  /** Calls the listener after each change. Returns a function that ends this. */
  readonly subscribe: (listener: () => void) => () => void
  /** The user has read this session: up to a seq, or all of it. Shown at once; resolves when it is stored. */
  readonly markRead: (session: string, seq?: number) => Promise<void>
  /** Changes the title of a session, or archives it for all members, as `change` of the session does. It need not be in this inbox. */
  readonly change: (session: string, change: SessionChange) => Promise<SessionFacts>
  /** Loads the next sessions, if there are any. */
  readonly loadMore: () => Promise<void>
  readonly close: () => void
}

export type InboxDeps = InboxOptions & {
  readonly link: Link
  readonly http: Pick<Http, 'get' | 'send' | 'open'>
  readonly clock: Clock
  readonly random: Random
  readonly onClose: () => void
}

export function createInbox(deps: InboxDeps): Inbox & Waking {
  const { http, clock, random, show = 'all', user } = deps
  const [closing, nap, listeners] = [new AbortController(), napOf(clock), createListeners()]
  const named = user === undefined ? '' : `&user=${encodeURIComponent(user)}`
  let view = EMPTY_INBOX
  let state: Pick<InboxSnapshot, 'connection' | 'refusal' | 'loading'> = {
    connection: 'connecting',
    refusal: null,
    loading: true,
  }
  let shown: InboxSnapshot | undefined = NO_INBOX
  let loading: { readonly cursor: string; readonly page: Promise<void> } | undefined
  const become = (next: InboxView, nextState = state) => {
    if (next === view && nextState === state) return
    ;[view, state, shown] = [next, nextState, undefined]
    listeners.tell()
  }
  const feed = createFeed({
    ...deps,
    path: () => `/inbox/events?show=${show}${named}`,
    command: () => ({ type: 'inbox', on: true, show, ...(user !== undefined && { user }) }),
    take: (frame) => {
      if (frame.type !== 'inbox') return true // from a later release
      become(takeFrame(view, frame, show), { ...state, loading: false })
      if (frame.reset) {
        ;[resets, loading] = [resets + 1, undefined]
        reload().catch(() => undefined) // it was refused, or the inbox was closed
      }
      return true
    },
    onConnection: (connection, error) => {
      become(view, { ...state, connection, refusal: error && refusalOf(error) })
    },
  })
  const signal = closing.signal
  const persist = { nap, random, signal }
  const storeRead = async (session: string, given: number | undefined) => {
    signal.throwIfAborted()
    const item = itemNamed(view, session)
    const [id, seq] = [item?.session ?? session, given ?? item?.head]
    if (seq === undefined) throw new RangeError(`The inbox has no session ${session} here: give a seq`)
    become(markRead(view, id, seq))
    const body = { seq, ...(user !== undefined && { user }) }
    const { signal: untilAnswered } = new AbortController() // what was sent is stored even if the inbox is closed meanwhile
    try {
      const { read } = await insist(persist, () =>
        ask<ReadAck>(deps, id, { type: 'read', body }, untilAnswered),
      )
      become(settleRead(view, id, seq, read))
    } catch (error) {
      become(settleRead(view, id, seq))
      throw error
    }
  }
  let resets = 0 // how often the list began again; a page requested before a reset is dropped
  const load = async (cursor: string) => {
    const path = `/inbox?show=${show}${named}&cursor=${encodeURIComponent(cursor)}`
    const before = resets
    const page = await http.get<InboxPage>(path, signal)
    if (resets === before) become(takePage(view, page, show))
  }
  const loadNext = async (cursor: string) => {
    const mine = loading?.cursor === cursor ? loading : { cursor, page: load(cursor) }
    loading = mine
    await mine.page.finally(() => {
      if (loading === mine) loading = undefined
    })
  }
  /** After a reset, loads as many pages as there were before. */
  const reload = () => {
    const mine = resets
    return insist(persist, async () => {
      while (resets === mine && view.pages < view.wanted && view.next !== null) await loadNext(view.next)
    })
  }
  void feed.run(signal)
  return {
    get: () => (shown ??= snapshotOf(view, show, state)),
    subscribe: listeners.subscribe,
    markRead: (session, seq) => {
      const stored = storeRead(session, seq)
      stored.catch(() => undefined) // a page need not wait for it
      return stored
    },
    change: (session, change) => http.send('PATCH', pathOf(session), change, signal),
    loadMore: async () => {
      for (const goal = view.wanted + 1; view.pages < goal && view.next !== null;) await loadNext(view.next)
    },
    wake: () => {
      feed.wake()
      nap.wake()
    },
    close: () => {
      deps.onClose()
      closing.abort(unavailable('The inbox is closed.'))
      become(view, { ...state, connection: 'offline' })
    },
  }
}

function itemNamed({ items }: InboxView, name: string): InboxItem | undefined {
  return items.get(name) ?? Array.from(items.values()).find(({ alias }) => alias === name)
}

function snapshotOf(
  view: InboxView,
  show: InboxShow,
  state: Pick<InboxSnapshot, 'connection' | 'refusal' | 'loading'>,
): InboxSnapshot {
  const sessions = Object.freeze(itemsOf(view, show))
  return Object.freeze({ sessions, ...view.totals, hasMore: view.next !== null, ...state })
}
