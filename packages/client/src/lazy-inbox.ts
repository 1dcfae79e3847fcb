// An inbox that loads its code when it is opened, because many pages show no inbox. Until the code is loaded, the snapshot is empty, and
// calls wait.
import { unavailable } from './failure.ts'
import type { Inbox, InboxDeps } from './inbox.ts'
import { NO_INBOX } from './inbox-snapshot.ts'
import { insist } from './insist.ts'
import { createListeners } from './listeners.ts'
import { napOf } from './nap.ts'
import type { Waking } from './session.ts'
import { within } from './within.ts'

export function createLazyInbox(deps: InboxDeps): Inbox & Waking {
  const { clock, random, onClose } = deps
  const [closing, nap, listeners] = [new AbortController(), napOf(clock), createListeners()]
  const signal = closing.signal
  let shown = NO_INBOX
  let inbox: (Inbox & Waking) | undefined
  /** Tries again if the code cannot be loaded. Rejects if the inbox is closed first. */
  const open = async () => {
    const code = await insist({ nap, random, signal }, () =>
      within(clock, signal, () => import('./inbox.ts')),
    )
    signal.throwIfAborted()
    inbox = code.createInbox(deps)
    inbox.subscribe(listeners.tell)
    return inbox
  }
  const opened = open()
  opened.catch(() => undefined) // it was closed, which only calls that wait have to know
  const perform = async <Result>(work: (inbox: Inbox) => Promise<Result>) => work(inbox ?? (await opened))
  return {
    get: () => inbox?.get() ?? shown,
    subscribe: listeners.subscribe,
    markRead: (session, seq) => {
      const stored = perform((inbox) => inbox.markRead(session, seq))
      stored.catch(() => undefined) // a page need not wait for it
      return stored
    },
    change: (session, change) => perform((inbox) => inbox.change(session, change)),
    loadMore: () => perform((inbox) => inbox.loadMore()),
    wake: () => {
      nap.wake()
      inbox?.wake()
    },
    close: () => {
      if (inbox) return inbox.close()
      onClose()
      closing.abort(unavailable('The inbox is closed.'))
      shown = Object.freeze({ ...NO_INBOX, connection: 'offline' })
      listeners.tell()
    },
  }
}
