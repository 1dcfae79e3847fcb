// One session on this device. It follows the session from its creation until it is closed, and keeps each message to send until
// the message is known to be stored.
import {
  JOIN_LIMITS,
  type Ack,
  type Frame,
  type Id,
  type Message as UiMessage,
  type Metadata,
  type Page,
  type Part,
  type ReadAck,
  type Session as SessionFacts,
  type StopAck,
} from '@fleetline/protocol'
import { ask, pathOf, type Request } from './ask.ts'
import type { Clock, Random } from './clock.ts'
import { refusalOf, refused, unavailable } from './failure.ts'
import { createFeed } from './feed.ts'
import type { Http } from './http.ts'
import { insist } from './insist.ts'
import type { Kept } from './kept.ts'
import type { Link } from './link.ts'
import { napOf } from './nap.ts'
import { createOutbox, type Outbox } from './outbox.ts'
import { createStore, type Snapshot, type Store } from './store.ts'
import type { Stream } from './stream.ts'
import { beginningOf, epochOf, liveTurn, type View } from './view.ts'

export type Input =
  | string
  | { readonly parts: readonly Part[]; readonly metadata?: Metadata; readonly id?: string }
/** `turn` is the one that replies, or the one before it. Absent without an agent, and if the acknowledgement was lost. */
export type Sent = { readonly seq: number; readonly turn?: Id<'turn'> }

export type Session = {
  /** The id or the alias that was asked for. */
  readonly id: string
  /** Resolves when all that is stored is here; rejects if the session cannot be followed, or is closed. */
  readonly ready: Promise<void>
  /** The current snapshot. */
  readonly get: () => Snapshot
  /** Calls the listener after each change. Returns a function that ends this. */
  readonly subscribe: (listener: () => void) => () => void
  /**
   * Sends a message. `sent` rejects if the message is rejected, or if the session is closed before the outcome is known. Throws
   * if the message is not JSON, if too many messages wait, and after the session was closed.
   */
  readonly send: (input: Input) => { readonly id: string; readonly sent: Promise<Sent> }
  /** Sends a rejected message again, with the same id. */
  readonly retry: (id: string) => void
  /** Forgets a rejected message. */
  readonly discard: (id: string) => void
  /** Stops the live turn. Resolves when the turn can write no more. `stopped: false`: it had ended, or no turn is live.
   *  Rejects if a pod refuses the stop, if the session is closed, or if the session knows no live turn and cannot ask a pod. */
  readonly stop: () => Promise<StopAck>
  /** Lets the agent write a reply anew: the last one, or the one with this id. A message of a user with this id is answered anew. Resolves
   *  when a turn has begun. Rejects with `stale` if somebody else has changed the conversation since. */
  readonly regenerate: (message?: string) => Promise<void>
  /** Puts another message in the place of the user's message with this id. That one and all behind it leave the conversation. Rejects like
   *  `regenerate`. */
  readonly edit: (message: string, input: Input) => Promise<void>
  /** Changes the title, or archives the session for all members. What is left out stays. Rejects if the change was rejected; if its outcome
   *  is unknown, it may be repeated. The inbox shows the change. */
  readonly change: (change: SessionChange) => Promise<SessionFacts>
  /** Loads the messages before the first one in the snapshot: 50, or `count`, at most 100. Does nothing if there are none. */
  readonly loadOlder: (count?: number) => Promise<void>
  /** Stores that the user of the token has read this session: up to `seq`, or all messages in the snapshot. */
  readonly markRead: (seq?: number) => Promise<void>
  readonly close: () => void
}
export type SessionChange = { readonly title?: string | null; readonly archived?: boolean }
export type SessionOptions = {
  /** How many of the last messages the session begins with. 50 unless you say so, at most 100. */
  readonly tail?: number
}
export type Waking = { readonly wake: () => void }

type SessionDeps = SessionOptions & {
  readonly id: string
  readonly http: Http
  readonly link: Link
  /** Keeps messages that are not stored yet, also while no page is open. */
  readonly kept: Kept | undefined
  readonly clock: Clock
  readonly random: Random
  readonly mintId: () => string
  readonly onClose: () => void
}
type Receipt = {
  readonly resolve: (sent: Sent) => void
  readonly reject: (error: Error) => void
  /** What is known so far. */
  known: Partial<Sent>
}

/** The most messages that are not stored yet or were rejected. */
export const OUTBOX_LIMIT = 1_000
const ACK_MS = 1_000 // how long a stored message waits for the acknowledgement, which names its turn
/** The frames of a session. Those of later releases are ignored. */
const FRAMES: ReadonlySet<string> = new Set<Frame['type']>(['messages', 'turn', 'chunks', 'gap', 'erased'])

export function createSession(deps: SessionDeps): Session & Waking & Adopting {
  const { id, clock, mintId, http, kept, random } = deps
  const [closing, receipts, nap] = [new AbortController(), createReceipts(), napOf(clock)]
  const { signal } = closing
  const persist = { nap, random, signal }
  const repeat = <T>(request: Request) => insist(persist, () => ask<T>(deps, id, request, signal))
  let ready: Promise<void> | undefined
  const store = createStore((id, seq) => {
    forgetMessage(id)
    const answered = outbox.settle(id) // its acknowledgement names the turn
    receipts.stored(id, seq)
    void soon(clock, answered).then(() => receipts.sent(id, seq))
  })
  const askFacts = () => http.get<SessionFacts>(pathOf(id), signal)
  /** The live turn by the word of a pod: its frame may be on the way. */
  const askTurn = async () => {
    const { turn, epoch } = await askFacts()
    return turn && { turn, epoch }
  }
  const rewrite = async ({ body, ...request }: Request) => {
    const epoch = epochOf(store.view()) || (await askFacts()).epoch
    const ack = await repeat<Ack>({ ...request, body: { ...body, epoch } })
    store.take({ type: 'acked', ack: { id: '', seq: 0, turn: ack.turn, epoch: ack.epoch } as Ack })
  }
  const forgetMessage = (message: string) => kept?.forget(id, message)
  const outbox = outboxOf(deps, store, receipts)
  const feed = feedOf(deps, store, outbox)
  const older = createOlder(deps, store, signal)
  void feed.run(signal)
  void outbox.run(signal)
  return {
    id,
    get ready() {
      ready ??= untilReady(store, signal)
      ready.catch(() => undefined) // a caller that ignores the promise sees the refusal in the snapshot
      return ready
    },
    get: store.get,
    subscribe: store.subscribe,
    send: (input) => {
      signal.throwIfAborted()
      const message = messageOf(input, mintId)
      const there = placeOf(store.view(), message.id)
      if (there !== undefined) return { id: message.id, sent: Promise.resolve({ seq: there }) }
      const sent = receipts.wait(message.id)
      kept?.keep(id, message)
      store.take({ type: 'send', message })
      outbox.wake()
      return { id: message.id, sent }
    },
    adopt: (messages) => {
      const { log, rows } = store.view()
      const known = new Set([...log, ...rows].map((message) => message.id))
      for (const message of messages)
        if (!known.has(message.id)) store.take({ type: 'send', message })
        else if (log.some((one) => one.id === message.id)) forgetMessage(message.id)
      outbox.wake()
    },
    retry: (id) => {
      store.take({ type: 'retry', id })
      outbox.wake()
    },
    discard: (id) => {
      store.take({ type: 'discard', id })
      if (!store.view().rows.some((row) => row.id === id)) forgetMessage(id)
    },
    stop: async () => {
      const turn = liveTurn(store.view()) ?? (await askTurn())
      return turn ? repeat<StopAck>({ type: 'stop', body: turn }) : { stopped: false, seq: null }
    },
    regenerate: (message) => rewrite({ type: 'regenerate', body: { message } }),
    edit: (message, input) => {
      const { id, parts, metadata } = messageOf(input, mintId)
      const path = `messages/${encodeURIComponent(message)}`
      return rewrite({ type: 'edit', method: 'PUT', path, body: { message, id, parts, metadata } })
    },
    change: (change) => http.send('PATCH', pathOf(id), change, signal),
    loadOlder: older,
    markRead: async (seq = store.view().head) =>
      void (await repeat<ReadAck>({ type: 'read', body: { seq } })),
    wake: () => {
      feed.wake()
      outbox.hurry()
      nap.wake()
    },
    close: () => {
      deps.onClose()
      const closed = unavailable('The session is closed.')
      closing.abort(closed)
      receipts.close(closed)
      store.setLink({ connection: 'offline', refusal: null })
    },
  }
}

/** Takes over messages that a page has left behind. */
export type Adopting = { readonly adopt: (messages: readonly UiMessage[]) => void }

type Receipts = ReturnType<typeof createReceipts>

/** The promises of messages that are not known to be stored yet, or whose turn is not known yet. */
function createReceipts() {
  const waiting = new Map<string, Receipt>()
  const end = (id: string, how: (receipt: Receipt) => void) => {
    const receipt = waiting.get(id)
    waiting.delete(id)
    if (receipt) how(receipt)
  }
  const note = (id: string, known: Partial<Sent>) => {
    const receipt = waiting.get(id)
    if (receipt) receipt.known = { ...receipt.known, ...known }
  }
  const sent = (id: string, seq: number) => end(id, ({ resolve, known }) => resolve({ ...known, seq }))
  const reject = (id: string, error: Error) => {
    const seq = waiting.get(id)?.known.seq
    if (seq === undefined) end(id, (receipt) => receipt.reject(error))
    else sent(id, seq) // it is known to be stored
  }
  return {
    wait: (id: string): Promise<Sent> => {
      const { promise, resolve, reject } = Promise.withResolvers<Sent>()
      waiting.set(id, { resolve, reject, known: {} })
      promise.catch(() => undefined) // a caller that ignores the promise sees the failure in the messages
      return promise
    },
    stored: (id: string, seq: number) => note(id, { seq }),
    acked: ({ id, turn }: Ack) => note(id, turn === undefined ? {} : { turn }),
    sent,
    reject,
    close: (error: Error) => {
      for (const id of waiting.keys()) reject(id, error)
    },
  }
}

function outboxOf(deps: SessionDeps, store: Store, receipts: Receipts): Outbox {
  const { id, clock, random } = deps
  return createOutbox({
    clock,
    random,
    next: () => store.view().rows.find(({ delivery }) => delivery === 'pending'),
    post: ({ id: key, role, parts, metadata }, signal) => {
      const message = { id: key, role, parts, ...(metadata && { metadata }) }
      return ask<Ack>(deps, id, { type: 'send', path: 'messages', body: { message } }, signal)
    },
    onAck: (ack) => {
      receipts.acked(ack)
      store.take({ type: 'acked', ack })
    },
    onRefusal: (id, error) => {
      receipts.reject(id, error)
      store.take({ type: 'refused', id, refusal: refusalOf(error) })
    },
  })
}

function feedOf(deps: SessionDeps, store: Store, outbox: Outbox): Stream {
  const { id, http } = deps
  const limit = tailOf(deps)
  const where = () => {
    const { after, epoch } = beginningOf(store.view())
    return { after: after || null, epoch }
  }
  return createFeed({
    ...deps,
    command: (cursor) => ({
      type: 'join',
      session: id,
      limit,
      ...(cursor === undefined ? where() : { cursor }),
    }),
    begin: (answer) => {
      if (answer.type !== 'joined') return
      store.take({ type: 'begun', from: answer.from })
      store.setGoal(answer.facts.head)
      outbox.wake()
    },
    prepare: async (signal) => {
      if (store.view().head > 0) return
      const { items, head } = await http.get<Page>(`${pathOf(id)}/messages?limit=${limit}`, signal)
      store.take({ type: 'begun', from: (items[0]?.seq ?? 1) - 1 })
      store.take({ type: 'messages', session: id as Id<'session'>, items, head })
      store.setGoal(head)
    },
    path: () => {
      const { after, epoch } = beginningOf(store.view())
      return `${pathOf(id)}/events?after=${after}&epoch=${epoch}`
    },
    take: (frame) => {
      if (!FRAMES.has(frame.type)) return true
      const isFar = frame.type === 'messages' && frame.head - store.view().head > JOIN_LIMITS.behind
      if (isFar) store.take({ type: 'begun', from: 0 }) // events would send all that was missed: begin with the last ones
      const hasMissed = isFar || store.take(frame as Frame)
      outbox.wake() // a sent message may be pending again, because its history is gone
      return !hasMissed
    },
    onConnection: (connection, error) => {
      store.setLink({ connection, refusal: error && refusalOf(error) })
      if (connection === 'live') outbox.hurry()
    },
  })
}

function tailOf({ tail = JOIN_LIMITS.tail }: SessionOptions): number {
  return Math.min(Math.max(1, Math.floor(tail)), JOIN_LIMITS.most)
}

/** Loads older messages, one page at a time. */
function createOlder(
  { id, http }: SessionDeps,
  store: Store,
  signal: AbortSignal,
): (count?: number) => Promise<void> {
  let loading: Promise<void> | undefined
  const load = async (count: number) => {
    for (let isDone = false; !isDone && store.view().base > 0;) {
      const { base, version } = store.view()
      const path = `${pathOf(id)}/messages?before=${base + 1}&limit=${count}`
      const { items } = await http.get<Page>(path, signal)
      isDone = store.view().version === version
      if (isDone) store.take({ type: 'older', items })
    }
  }
  return (count = JOIN_LIMITS.tail) =>
    (loading ??= load(tailOf({ tail: count })).finally(() => (loading = undefined)))
}

/** Resolves when all that was stored when the session was opened is here. */
function untilReady({ get, subscribe }: Store, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const { loading, refusal } = get()
      if (refusal) reject(refused(refusal.code, refusal.text))
      else if (loading) return
      else resolve()
      leave()
    }
    const leave = subscribe(look)
    const onAbort = () => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    look()
  })
}

/** Waits for a promise, but not for long. */
async function soon(clock: Clock, promise: Promise<unknown> | undefined): Promise<void> {
  if (!promise) return
  const done = new AbortController()
  await Promise.race([promise, clock.sleep(ACK_MS, done.signal).catch(() => undefined)])
  done.abort()
}

/** Copies the message as it will be sent, so that later changes of the caller's object have no effect. */
function messageOf(input: Input, mintId: () => string): UiMessage {
  const given = typeof input === 'string' ? { parts: [{ type: 'text', text: input }] } : input
  const { id = mintId(), parts, metadata } = given
  const message: UiMessage = { id, role: 'user', parts, ...(metadata && { metadata }) }
  try {
    return JSON.parse(JSON.stringify(message)) as UiMessage
  } catch (cause) {
    throw refused('invalid', 'The message is no JSON.', cause)
  }
}

/** The position in the log, if the message is there: the same id means the same message. */
function placeOf({ log, rows }: View, id: string): number | undefined {
  const there = log.find((message) => message.id === id)
  if (there) return there.seq!
  if (rows.length >= OUTBOX_LIMIT)
    throw refused('too_many', `${OUTBOX_LIMIT} messages wait to be sent already.`)
  if (rows.some((row) => row.id === id))
    throw refused('conflict', `The message ${id} waits to be sent already.`)
  return undefined
}
