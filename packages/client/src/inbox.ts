// The inbox of a user on this device: its sessions, as they are now, and how far the user has read. It follows the inbox until it is
// closed.
import type { InboxFrame, InboxItem, InboxPage, InboxShow, ReadAck } from '@fleetline/protocol'
import { backoffMs, type Clock, type Random } from './clock.ts'
import { isRefusal, retryAfterMs, unavailable, type Refusal } from './failure.ts'
import type { Http } from './http.ts'
import {
  EMPTY_INBOX,
  itemsOf,
  markRead,
  settleRead,
  takeFrame,
  takePage,
  type InboxView,
} from './inbox-view.ts'
import { createListeners } from './listeners.ts'
import { napOf } from './nap.ts'
import { createStream, type Connection } from './stream.ts'

export type InboxOptions = {
  /** `all`: all but archived ones. With `archived`, later changes of archived sessions are not shown. */
  readonly show?: InboxShow
  /** Whose inbox. Only in a back end with an API key; a token names its user. */
  readonly user?: string
}

export type InboxSnapshot = {
  /** In the order of `show`: the newest first, or by attention. */
  readonly sessions: readonly InboxItem[]
  /** Of the newest 1,000 sessions that are not archived. */
  readonly unreadTotal: number
  readonly attentionTotal: number
  /** True until the first page has arrived. */
  readonly loading: boolean
  /** There are more sessions: `loadMore`. */
  readonly hasMore: boolean
  readonly connection: Connection
  /** Why the inbox cannot be followed, if `connection` is refused. */
  readonly refusal: Refusal | null
}

export type Inbox = {
  /** The current snapshot. */
  readonly get: () => InboxSnapshot
  /** Calls the listener after each change. Returns a function that ends this. */
  readonly subscribe: (listener: () => void) => () => void
  /** The user has read this session: up to a seq, or all of it. Shown at once; resolves when it is stored. */
  readonly markRead: (session: string, seq?: number) => Promise<void>
  /** Loads the next sessions, if there are any. */
  readonly loadMore: () => Promise<void>
  readonly close: () => void
}

type InboxDeps = InboxOptions & {
  readonly http: Pick<Http, 'get' | 'post' | 'events'>
  readonly clock: Clock
  readonly random: Random
  readonly onClose: () => void
}

export function createInbox(deps: InboxDeps): Inbox & { readonly wake: () => void } {
  const { http, clock, random, show = 'all', user } = deps
  const [closing, nap, listeners] = [new AbortController(), napOf(clock), createListeners()]
  const named = user === undefined ? '' : `&user=${encodeURIComponent(user)}`
  let view = EMPTY_INBOX
  let link: Pick<InboxSnapshot, 'connection' | 'refusal' | 'loading'> = {
    connection: 'connecting',
    refusal: null,
    loading: true,
  }
  let shown: InboxSnapshot | undefined
  let loading: { readonly cursor: string; readonly page: Promise<void> } | undefined
  const become = (next: InboxView, nextLink = link) => {
    if (next === view && nextLink === link) return
    ;[view, link, shown] = [next, nextLink, undefined]
    listeners.tell()
  }
  const stream = createStream({
    http,
    clock,
    random,
    path: () => `/inbox/events?show=${show}${named}`,
    take: (data) => {
      const frame = JSON.parse(data) as InboxFrame
      if (frame.type !== 'inbox') return true // from a later release
      become(takeFrame(view, frame, show), { ...link, loading: false })
      if (frame.reset) {
        ;[resets, loading] = [resets + 1, undefined]
        reload().catch(() => undefined) // it was refused, or the inbox was closed
      }
      return true
    },
    onConnection: (connection, error) => {
      const refusal = error ? { code: error.code, text: error.message } : null
      become(view, { ...link, connection, refusal })
    },
  })
  const signal = closing.signal
  /** Repeats the work until it succeeds, is refused, or the inbox is closed. */
  const insist = async <T>(work: () => Promise<T>): Promise<T> => {
    for (let failures = 0; ; failures += 1) {
      try {
        return await work()
      } catch (error) {
        if (isRefusal(error) || signal.aborted) throw error
        await nap.sleep(Math.max(backoffMs(failures, random), retryAfterMs(error)), signal)
        signal.throwIfAborted()
      }
    }
  }
  const storeRead = async (session: string, given: number | undefined) => {
    signal.throwIfAborted()
    const item = itemNamed(view, session)
    const [id, seq] = [item?.session ?? session, given ?? item?.head]
    if (seq === undefined) throw new RangeError(`The inbox has no session ${session} here: give a seq`)
    become(markRead(view, id, seq))
    const [path, body] = [
      `/sessions/${encodeURIComponent(id)}/read`,
      { seq, ...(user !== undefined && { user }) },
    ]
    const { signal: untilAnswered } = new AbortController() // what was sent is stored even if the inbox is closed meanwhile
    try {
      const { read } = await insist(() => http.post<ReadAck>(path, body, untilAnswered))
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
    return insist(async () => {
      while (resets === mine && view.pages < view.wanted && view.next !== null) await loadNext(view.next)
    })
  }
  void stream.run(signal)
  return {
    get: () => (shown ??= snapshotOf(view, show, link)),
    subscribe: listeners.subscribe,
    markRead: (session, seq) => {
      const stored = storeRead(session, seq)
      stored.catch(() => undefined) // a page need not wait for it
      return stored
    },
    loadMore: async () => {
      for (const goal = view.wanted + 1; view.pages < goal && view.next !== null;) await loadNext(view.next)
    },
    wake: () => {
      stream.wake()
      nap.wake()
    },
    close: () => {
      deps.onClose()
      closing.abort(unavailable('The inbox is closed on this device.'))
      become(view, { ...link, connection: 'offline' })
    },
  }
}

function itemNamed({ items }: InboxView, name: string): InboxItem | undefined {
  return items.get(name) ?? Array.from(items.values()).find(({ alias }) => alias === name)
}

function snapshotOf(
  view: InboxView,
  show: InboxShow,
  link: Pick<InboxSnapshot, 'connection' | 'refusal' | 'loading'>,
): InboxSnapshot {
  const sessions = Object.freeze(itemsOf(view, show))
  return Object.freeze({ sessions, ...view.totals, hasMore: view.next !== null, ...link })
}
