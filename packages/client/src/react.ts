// React hooks over the stores of a client. Guarantees:
//   a component renders again only when what it shows has changed; a message that has not changed is the same object
//   a session or an inbox is opened when the first component that uses it is on the page, and closed when none has used it for 30 s and
//   nothing waits to be sent
//   on a server, what is shown is empty, and nothing is opened
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
import type { Inbox, InboxOptions, InboxSnapshot } from './inbox.ts'
import type { Session, SessionOptions } from './session.ts'
import type { Connection } from './standing.ts'
import type { Snapshot } from './store.ts'

export type SessionView = Snapshot &
  Pick<Session, 'send' | 'stop' | 'retry' | 'discard' | 'change' | 'loadOlder' | 'markRead'>
export type InboxView = InboxSnapshot & Pick<Inbox, 'markRead' | 'loadMore'>

/** What several components share: a store that is open while one of them is on the page. */
type Shared<Store, Shown> = {
  readonly subscribe: (listener: () => void) => () => void
  readonly get: () => Shown
  /** For an action: opens the store if it is closed. */
  readonly use: () => Store
  readonly empty: () => Shown
}
type SharedOf = {
  readonly sessions: Map<string, Shared<Session, Snapshot> & { readonly actions: object }>
  readonly inboxes: Map<string, Shared<Inbox, InboxSnapshot> & { readonly actions: object }>
}

const LINGER_MS = 30_000
const LINK = { connection: 'connecting', refusal: null } as const
const NO_SESSION: Snapshot = Object.freeze({
  messages: [],
  head: 0,
  hasOlder: false,
  loading: true,
  status: 'idle',
  turn: null,
  ...LINK,
})
const NO_INBOX: InboxSnapshot = Object.freeze({
  sessions: [],
  unreadTotal: 0,
  attentionTotal: 0,
  loading: true,
  hasMore: false,
  ...LINK,
})

const clock = systemClock()
const shared = new WeakMap<Client, SharedOf>()
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

/** What a session shows now, and what can be done in it. `options` count when the session is opened. */
export function useSession(id: string, options?: SessionOptions): SessionView {
  const { subscribe, get, empty, actions } = sessionOf(useClient(), id, options)
  const shown = useSyncExternalStore(subscribe, get, empty)
  return useMemo(() => ({ ...shown, ...actions }) as SessionView, [shown, actions])
}

/** What the inbox shows now. Components with the same options share one. */
export function useInbox({ show = 'all', user }: InboxOptions = {}): InboxView {
  const { subscribe, get, empty, actions } = inboxOf(useClient(), {
    show,
    ...(user !== undefined && { user }),
  })
  const shown = useSyncExternalStore(subscribe, get, empty)
  return useMemo(() => ({ ...shown, ...actions }) as InboxView, [shown, actions])
}

/** The worst connection of all that is open. */
export function useConnection(): Connection {
  const { subscribe, get } = useClient().connection
  return useSyncExternalStore(subscribe, get, () => 'connecting')
}

function sharedOf(client: Client): SharedOf {
  const known = shared.get(client) ?? { sessions: new Map(), inboxes: new Map() }
  shared.set(client, known)
  return known
}

function sessionOf(client: Client, id: string, options: SessionOptions | undefined) {
  const { sessions } = sharedOf(client)
  const known = sessions.get(id)
  if (known) return known
  const isBusy = ({ messages }: Snapshot) => messages.some(({ delivery }) => delivery === 'pending')
  const one = share(() => client.session(id, options), NO_SESSION, isBusy)
  const actions: Omit<SessionView, keyof Snapshot> = {
    send: (input) => one.use().send(input),
    stop: () => one.use().stop(),
    retry: (message) => one.use().retry(message),
    discard: (message) => one.use().discard(message),
    change: (change) => one.use().change(change),
    loadOlder: (count) => one.use().loadOlder(count),
    markRead: (seq) => one.use().markRead(seq),
  }
  const made = { ...one, actions }
  sessions.set(id, made)
  return made
}

function inboxOf(client: Client, options: InboxOptions) {
  const { inboxes } = sharedOf(client)
  const key = JSON.stringify(options)
  const known = inboxes.get(key)
  if (known) return known
  const one = share(
    () => client.inbox(options),
    NO_INBOX,
    () => false,
  )
  const actions: Omit<InboxView, keyof InboxSnapshot> = {
    markRead: (session, seq) => one.use().markRead(session, seq),
    loadMore: () => one.use().loadMore(),
  }
  const made = { ...one, actions }
  inboxes.set(key, made)
  return made
}

type Store<Shown> = {
  readonly get: () => Shown
  readonly subscribe: (listener: () => void) => () => void
  readonly close: () => void
}

function share<One extends Store<Shown>, Shown>(
  open: () => One,
  nothing: Shown,
  isBusy: (shown: Shown) => boolean,
): Shared<One, Shown> {
  let [store, holders, leaving]: [One | undefined, number, AbortController] = [
    undefined,
    0,
    new AbortController(),
  ]
  const hold = (): One => {
    holders += 1
    leaving.abort()
    return (store ??= open())
  }
  /** Strict mode, hot reload and navigation leave and come back at once. */
  const release = () => {
    holders -= 1
    if (holders > 0) return
    leaving = new AbortController()
    void closeLater(leaving.signal).catch(() => undefined) // it is used again
  }
  const closeLater = async (signal: AbortSignal) => {
    do await clock.sleep(LINGER_MS, signal)
    while (store && isBusy(store.get()))
    store?.close()
    store = undefined
  }
  return {
    subscribe: (listener) => {
      const leave = hold().subscribe(listener)
      return () => {
        leave()
        release()
      }
    },
    get: () => store?.get() ?? nothing,
    use: () => {
      const used = hold()
      release()
      return used
    },
    empty: () => nothing,
  }
}
