'use client' // for frameworks with server components: hooks run in a browser, and once on a server for the first HTML
// React hooks over the stores of a client. Guarantees:
//   a component renders again only when what it shows has changed; a message that has not changed is the same object
//   a session or an inbox is opened when the first component that uses it is on the page. It is closed when none has used it for 30 s, no
//   action is running, and every own message is stored or discarded
//   rendering alone opens nothing: neither on a server nor for a component that React drops before it is on the page
import {
  createContext,
  createElement,
  useContext,
  useMemo,
  useSyncExternalStore,
  type FunctionComponent,
  type ReactNode,
} from 'react'
import type { Client } from './client.ts'
import { systemClock } from './clock.ts'
import type { Inbox, InboxOptions } from './inbox.ts'
import { NO_INBOX, type InboxSnapshot } from './inbox-snapshot.ts'
import type { Session, SessionOptions } from './session.ts'
import type { Connection } from './standing.ts'
import type { Snapshot } from './store.ts'

export type SessionView = Snapshot &
  Pick<
    Session,
    'send' | 'stop' | 'regenerate' | 'edit' | 'retry' | 'discard' | 'change' | 'loadOlder' | 'markRead'
  >
export type InboxView = InboxSnapshot & Pick<Inbox, 'markRead' | 'change' | 'loadMore'>

const LINGER_MS = 30_000 // strict mode, hot reload and navigation leave and come back
const LINK = { connection: 'connecting', refusal: null } as const
const NO_SESSION: Snapshot = Object.freeze({
  messages: Object.freeze([]),
  head: 0,
  hasOlder: false,
  loading: true,
  status: 'idle',
  turn: null,
  ...LINK,
})

const clock = systemClock()
const Context = createContext<Client | undefined>(undefined)

export const FleetlineProvider: FunctionComponent<{
  readonly client: Client
  readonly children?: ReactNode
}> = ({ client, children }) => createElement(Context.Provider, { value: client }, children)

/** The client of the nearest `FleetlineProvider`. */
export function useClient(): Client {
  const client = useContext(Context)
  if (!client) throw new Error('There is no client here: put a FleetlineProvider around this component')
  return client
}

/** A snapshot of the session, with the functions that act on it. The options have an effect only when this opens the session. */
export function useSession(id: string, { tail }: SessionOptions = {}): SessionView {
  const client = useClient()
  const { subscribe, get, actions } = useMemo(() => sessionOf(client, id, tail), [client, id, tail])
  const shown = useSyncExternalStore(subscribe, get, () => NO_SESSION)
  return useMemo(() => ({ ...shown, ...actions }), [shown, actions])
}

/** What the inbox shows now. Components with the same options share one. */
export function useInbox({ show = 'all', user }: InboxOptions = {}): InboxView {
  const client = useClient()
  const { subscribe, get, actions } = useMemo(() => inboxOf(client, show, user), [client, show, user])
  const shown = useSyncExternalStore(subscribe, get, () => NO_INBOX)
  return useMemo(() => ({ ...shown, ...actions }), [shown, actions])
}

/** The worst connection of all that is open. */
export function useConnection(): Connection {
  const { subscribe, get } = useClient().connection
  return useSyncExternalStore(subscribe, get, () => 'connecting')
}

function sessionOf(client: Client, id: string, tail: number | undefined) {
  const one = share<Session, Snapshot>({
    client,
    key: `session ${id}`,
    open: () => client.session(id, tail === undefined ? {} : { tail }),
    empty: NO_SESSION,
    isBusy: ({ messages }) =>
      messages.some(({ delivery }) => delivery === 'pending' || delivery === 'failed'),
  })
  const actions: Omit<SessionView, keyof Snapshot> = {
    send: (input) => one.act((session) => session.send(input)),
    stop: () => one.act((session) => session.stop()),
    regenerate: (message) => one.act((session) => session.regenerate(message)),
    edit: (message, input) => one.act((session) => session.edit(message, input)),
    retry: (message) => one.act((session) => session.retry(message)),
    discard: (message) => one.act((session) => session.discard(message)),
    change: (change) => one.act((session) => session.change(change)),
    loadOlder: (count) => one.act((session) => session.loadOlder(count)),
    markRead: (seq) => one.act((session) => session.markRead(seq)),
  }
  return { ...one, actions }
}

function inboxOf(client: Client, show: NonNullable<InboxOptions['show']>, user: string | undefined) {
  const options = { show, ...(user !== undefined && { user }) }
  const one = share<Inbox, InboxSnapshot>({
    client,
    key: `inbox ${JSON.stringify(options)}`,
    open: () => client.inbox(options),
    empty: NO_INBOX,
    isBusy: () => false,
  })
  const actions: Omit<InboxView, keyof InboxSnapshot> = {
    markRead: (session, seq) => one.act((inbox) => inbox.markRead(session, seq)),
    change: (session, change) => one.act((inbox) => inbox.change(session, change)),
    loadMore: () => one.act((inbox) => inbox.loadMore()),
  }
  return { ...one, actions }
}

type Store<Shown> = {
  readonly get: () => Shown
  readonly subscribe: (listener: () => void) => () => void
  readonly close: () => void
}
/** An open store, and how many components and actions use it. */
type Held<One> = { readonly store: One; holders: number; leaving: AbortController }
type Sharing<One, Shown> = {
  readonly client: Client
  readonly key: string
  readonly open: () => One
  /** What is shown while it is not open. */
  readonly empty: Shown
  /** True if closing it now would lose something. */
  readonly isBusy: (shown: Shown) => boolean
}

/** The open stores of each client. Components share nothing else, so React may drop and make again all that they have. */
const opened = new WeakMap<Client, Map<string, Held<unknown>>>()

function share<One extends Store<Shown>, Shown>({ client, key, open, empty, isBusy }: Sharing<One, Shown>) {
  const all = (opened.get(client) ?? new Map()) as Map<string, Held<One>>
  opened.set(client, all)
  const hold = (): Held<One> => {
    const held = all.get(key) ?? { store: open(), holders: 0, leaving: new AbortController() }
    all.set(key, held)
    held.holders += 1
    held.leaving.abort()
    return held
  }
  const release = (held: Held<One>) => {
    held.holders -= 1
    if (held.holders > 0) return
    held.leaving = new AbortController()
    closeLater(held, held.leaving.signal).catch(() => undefined) // it is used again
  }
  const closeLater = async ({ store }: Held<One>, signal: AbortSignal) => {
    await clock.sleep(LINGER_MS, signal)
    while (isBusy(store.get())) await untilChanged(store, signal)
    signal.throwIfAborted()
    all.delete(key)
    store.close()
  }
  return {
    subscribe: (listener: () => void) => {
      const held = hold()
      const leave = held.store.subscribe(listener)
      return () => {
        leave()
        release(held)
      }
    },
    get: () => all.get(key)?.store.get() ?? empty,
    /** Opens the store if it is closed, and keeps it open until the result is there. */
    act: <Result>(work: (store: One) => Result): Result => {
      const held = hold()
      let result: Result | undefined
      try {
        return (result = work(held.store))
      } finally {
        const done = () => release(held)
        Promise.resolve(result).then(done, done)
      }
    },
  }
}

function untilChanged({ subscribe }: Store<unknown>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = subscribe(() => {
      signal.removeEventListener('abort', onAbort)
      leave()
      resolve()
    })
    const onAbort = () => {
      leave()
      reject(signal.reason as Error)
    }
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
