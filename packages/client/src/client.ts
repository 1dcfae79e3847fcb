// The sessions and inboxes of one device. Each is followed from when it is first asked for: over one socket for all, or over an event
// stream each where sockets cannot be used.
import { systemClock, systemRandom, type Clock, type Random } from './clock.ts'
import { unavailable } from './failure.ts'
import { createHttp } from './http.ts'
import type { Inbox, InboxOptions } from './inbox.ts'
import type { Kept } from './kept.ts'
import { createLazyInbox } from './lazy-inbox.ts'
import { createLink } from './link.ts'
import { createListeners } from './listeners.ts'
import { createSession, type Adopting, type Session, type SessionOptions, type Waking } from './session.ts'
import type { Connection } from './standing.ts'
import { createTokens, type TokenSource } from './tokens.ts'
import { onWake } from './wake.ts'

export type ClientOptions = {
  /** The URL of the fleet, without `/v1`. May be left out in a page from the same server. */
  readonly url?: string
  /** The token of the user, or a function that gets one from your back end. In a back end, an API key. */
  readonly token?: TokenSource
  readonly fetch?: typeof globalThis.fetch
  /** The class for the socket. Without one, and with a `fetch` of your own, each session is followed over an event stream. */
  readonly WebSocket?: typeof globalThis.WebSocket
  /** Keeps messages that are not stored yet beyond the page: `indexedDbOutbox` of `@fleetline/client/indexeddb`. */
  readonly outbox?: Kept
  readonly clock?: Clock
  readonly random?: Random
}
export type Client = {
  /** Takes an id or an alias. Returns the same object until it is closed. */
  readonly session: (id: string, options?: SessionOptions) => Session
  /** The inbox of a user. Call its `close` when the page no longer shows it. The socket carries one inbox; others get an event stream. */
  readonly inbox: (options?: InboxOptions) => Inbox
  /** The worst connection of all sessions and inboxes that are open and not refused. */
  readonly connection: {
    readonly get: () => Connection
    /** Calls the listener after each change. Returns a function that ends this. */
    readonly subscribe: (listener: () => void) => () => void
  }
  /** Closes all sessions and inboxes. */
  readonly close: () => void
}

export function createClient({
  url = '',
  token: source,
  fetch: given,
  WebSocket = given ? undefined : globalThis.WebSocket,
  outbox: kept,
  clock = systemClock(),
  random = systemRandom,
}: ClientOptions = {}): Client {
  const fetch = given ?? ((...request: Parameters<typeof globalThis.fetch>) => globalThis.fetch(...request))
  const sessions = new Map<string, Session & Waking & Adopting>()
  const inboxes = new Set<Inbox & Waking>()
  const [at, tokens] = [url.replace(/\/+$/, ''), createTokens({ source, clock, random })]
  const http = createHttp({ url: at, fetch, clock, tokens })
  const link = createLink({ WebSocket, url: () => socketUrl(at), tokens, clock, random })
  const shared = { http, link, clock, random }
  const all = () => [...sessions.values(), ...inboxes]
  const [closing, links] = [new AbortController(), createListeners()]
  onWake(() => {
    link.wake()
    for (const each of all()) each.wake()
  }, closing.signal)
  const added = <One extends Session | Inbox>(open: () => One): One => {
    if (closing.signal.aborted) throw unavailable('The client is closed.')
    const one = open()
    one.subscribe(links.tell)
    queueMicrotask(links.tell) // later, because a page may open it while it renders
    return one
  }
  const open = (id: string, options?: SessionOptions) =>
    added(() => {
      const onClose = () => {
        if (sessions.get(id) === session) sessions.delete(id)
      }
      const session = createSession({ ...shared, ...options, id, kept, mintId, onClose })
      sessions.set(id, session)
      return session
    })
  const openInbox = (options?: InboxOptions) =>
    added(() => {
      const inbox = createLazyInbox({ ...shared, ...options, onClose: () => void inboxes.delete(inbox) })
      inboxes.add(inbox)
      return inbox
    })
  kept?.watch((id, messages) => {
    if (!closing.signal.aborted) (sessions.get(id) ?? open(id)).adopt(messages)
  }, closing.signal)
  return {
    inbox: openInbox,
    session: (id, options) => sessions.get(id) ?? open(id, options),
    connection: { get: () => worstOf(all()), subscribe: links.subscribe },
    close: () => {
      closing.abort()
      for (const each of all()) each.close()
      link.close()
    },
  }
}

const WORST_FIRST = ['offline', 'stale', 'connecting', 'live', 'refused'] as const

function worstOf(all: readonly { readonly get: () => { readonly connection: Connection } }[]): Connection {
  const found = new Set(all.map(({ get }) => get().connection))
  return WORST_FIRST.find((connection) => found.has(connection)) ?? 'connecting'
}

function socketUrl(at: string): string {
  const { href } = new URL(
    `${at}/v1/socket`,
    (globalThis as { location?: { readonly href: string } }).location?.href,
  )
  return href.replace(/^http/, 'ws')
}

/** 128 random bits. `crypto.randomUUID` is missing in pages that came over plain HTTP from another host. */
function mintId(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-')
}
