// The sessions and inboxes of one device. Each is followed over its own connection, from when it is first asked for.
import { systemClock, systemRandom, type Clock, type Random } from './clock.ts'
import { unavailable } from './failure.ts'
import { createHttp } from './http.ts'
import { createInbox, type Inbox, type InboxOptions } from './inbox.ts'
import { createSession, type Session, type Waking } from './session.ts'
import { createTokens, type TokenSource } from './tokens.ts'
import { onWake } from './wake.ts'

export type ClientOptions = {
  /** The URL of the fleet, without `/v1`. May be left out in a page from the same server. */
  readonly url?: string
  /** The token of the user, or a function that gets one from your back end. In a back end, an API key. */
  readonly token?: TokenSource
  readonly fetch?: typeof globalThis.fetch
  readonly clock?: Clock
  readonly random?: Random
}
export type Client = {
  /** Takes an id or an alias. Returns the same object until it is closed. */
  readonly session: (id: string) => Session
  /** The inbox of a user. Each call opens a stream of its own: call `close` when the page no longer shows it. */
  readonly inbox: (options?: InboxOptions) => Inbox
  /** Closes all sessions and inboxes. */
  readonly close: () => void
}

export function createClient({
  url = '',
  token: source,
  fetch = (...request) => globalThis.fetch(...request),
  clock = systemClock(),
  random = systemRandom,
}: ClientOptions = {}): Client {
  const sessions = new Map<string, Session & Waking>()
  const inboxes = new Set<Inbox & Waking>()
  const http = createHttp({
    url: url.replace(/\/+$/, ''),
    fetch,
    clock,
    tokens: createTokens({ source, clock, random }),
  })
  const stopListening = onWake(() => {
    for (const each of [...sessions.values(), ...inboxes]) each.wake()
  })
  let isClosed = false
  const open = (id: string): Session => {
    if (isClosed) throw unavailable('The client is closed.')
    const onClose = () => {
      if (sessions.get(id) === session) sessions.delete(id)
    }
    const session = createSession({ id, http, clock, random, mintId, onClose })
    sessions.set(id, session)
    return session
  }
  const openInbox = (options: InboxOptions = {}): Inbox => {
    if (isClosed) throw unavailable('The client is closed.')
    const onClose = () => void inboxes.delete(inbox)
    const inbox = createInbox({ ...options, http, clock, random, onClose })
    inboxes.add(inbox)
    return inbox
  }
  return {
    inbox: openInbox,
    session: (id) => sessions.get(id) ?? open(id),
    close: () => {
      isClosed = true
      stopListening()
      for (const each of [...sessions.values(), ...inboxes]) each.close()
    },
  }
}

/** 128 random bits. `crypto.randomUUID` is missing in pages that came over plain HTTP from another host. */
function mintId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
