// One session on this device. It follows the session from its creation until it is closed, and keeps each message to send until
// the message is known to be stored.
import type {
  Ack,
  Frame,
  Id,
  Message as UiMessage,
  Metadata,
  Part,
  Session as SessionFacts,
  StopAck,
} from '@fleetline/protocol'
import { backoffMs, type Clock, type Random } from './clock.ts'
import { FleetlineError, isRefusal, retryAfterMs, STRANGER, unavailable } from './failure.ts'
import type { Http } from './http.ts'
import { napOf, type Nap } from './nap.ts'
import { createOutbox, type Outbox } from './outbox.ts'
import { createStore, type Snapshot, type Store } from './store.ts'
import { createStream, type Stream } from './stream.ts'
import { beginningOf, liveTurn, type View } from './view.ts'

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
  /** Stops the live turn. Resolves when the turn can write no more. `stopped: false`: it had ended, or no turn is live. */
  readonly stop: () => Promise<StopAck>
  /** Changes the title, or archives the session for all members. What is left out stays. Rejects if the change was rejected; if its outcome
   *  is unknown, it may be repeated. The inbox shows the change. */
  readonly change: (change: SessionChange) => Promise<SessionFacts>
  readonly close: () => void
}
export type SessionChange = { readonly title?: string | null; readonly archived?: boolean }
export type Waking = { readonly wake: () => void }

type SessionDeps = {
  readonly id: string
  readonly http: Http
  readonly clock: Clock
  readonly random: Random
  readonly mintId: () => string
  readonly onClose: () => void
}
type Receipt = {
  readonly resolve: (sent: Sent) => void
  readonly reject: (error: Error) => void
  readonly known: Partial<Sent>
}

/** The most messages that are not stored yet or were rejected. */
export const OUTBOX_LIMIT = 1_000
const ACK_MS = 1_000 // the message is stored already: only its turn is waited for
const FRAMES: ReadonlySet<string> = new Set<Frame['type']>(['messages', 'turn', 'chunks', 'gap', 'erased'])

export function createSession(deps: SessionDeps): Session & Waking {
  const { id, clock, mintId } = deps
  const [closing, receipts, nap] = [new AbortController(), createReceipts(), napOf(clock)]
  let ready: Promise<void> | undefined
  const store = createStore((id, seq) => {
    const answered = outbox.settle(id) // its acknowledgement names the turn
    receipts.stored(id, seq)
    void soon(clock, answered).then(() => receipts.sent(id, seq))
  })
  const outbox = outboxOf(deps, store, receipts)
  const stream = streamOf(deps, store, outbox)
  void stream.run(closing.signal)
  void outbox.run(closing.signal)
  return {
    id,
    get ready() {
      ready ??= untilReady(deps, { store, nap, signal: closing.signal })
      ready.catch(() => undefined) // a caller that ignores the promise sees the refusal in the snapshot
      return ready
    },
    get: store.get,
    subscribe: store.subscribe,
    send: (input) => {
      closing.signal.throwIfAborted()
      const message = messageOf(input, mintId)
      const there = placeOf(store.view(), message.id)
      if (there !== undefined) return { id: message.id, sent: Promise.resolve({ seq: there }) }
      const sent = receipts.wait(message.id)
      store.take({ type: 'send', message })
      outbox.wake()
      return { id: message.id, sent }
    },
    retry: (id) => {
      store.take({ type: 'retry', id })
      outbox.wake()
    },
    discard: (id) => void store.take({ type: 'discard', id }),
    stop: () => stopTurn(deps, { view: store.view(), nap, signal: closing.signal }),
    change: (change) => deps.http.patch(pathOf(id), change, closing.signal),
    wake: () => {
      stream.wake()
      outbox.hurry()
      nap.wake()
    },
    close: () => {
      deps.onClose()
      const closed = unavailable('The session is closed on this device.')
      closing.abort(closed)
      receipts.close(closed)
      store.setLink({ connection: 'offline', refusal: null })
    },
  }
}

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
    if (receipt) waiting.set(id, { ...receipt, known: { ...receipt.known, ...known } })
  }
  /** Resolves instead if the message is known to be stored. */
  const reject = (id: string, error: Error) =>
    end(id, ({ resolve, reject, known: { seq, ...rest } }) =>
      seq === undefined ? reject(error) : resolve({ seq, ...rest }),
    )
  return {
    wait: (id: string): Promise<Sent> => {
      const { promise: sent, resolve, reject } = Promise.withResolvers<Sent>()
      waiting.set(id, { resolve, reject, known: {} })
      sent.catch(() => undefined) // a caller that ignores the promise sees the failure in the messages
      return sent
    },
    stored: (id: string, seq: number) => note(id, { seq }),
    acked: ({ id, turn }: Ack) => note(id, { ...(turn !== undefined && { turn }) }),
    sent: (id: string, seq: number) => end(id, ({ resolve, known }) => resolve({ ...known, seq })),
    reject,
    close: (error: Error) => {
      for (const id of waiting.keys()) reject(id, error)
    },
  }
}

function outboxOf({ id, http, clock, random }: SessionDeps, store: Store, receipts: Receipts): Outbox {
  return createOutbox({
    clock,
    random,
    next: () => store.view().rows.find(({ delivery }) => delivery === 'pending'),
    post: ({ id: message, role, parts, metadata }, signal) =>
      http.post<Ack>(`${pathOf(id)}/messages`, { message: { id: message, role, parts, metadata } }, signal),
    onAck: (ack) => {
      receipts.acked(ack)
      store.take({ type: 'acked', ack })
    },
    onRefusal: (id, error) => {
      receipts.reject(id, error)
      store.take({ type: 'refused', id, refusal: { code: error.code, text: error.message } })
    },
  })
}

function streamOf({ id, http, clock, random }: SessionDeps, store: Store, outbox: Outbox): Stream {
  return createStream({
    http,
    clock,
    random,
    path: () => {
      const { after, epoch } = beginningOf(store.view())
      return `${pathOf(id)}/events?after=${after}&epoch=${epoch}`
    },
    take: (data) => {
      const frame = JSON.parse(data) as Frame
      if (!FRAMES.has(frame.type)) return true // from a later release
      const hasMissed = store.take(frame)
      outbox.wake() // a sent message may be pending again, because its history is gone
      return !hasMissed
    },
    onConnection: (connection, error) => {
      store.setLink({ connection, refusal: error ? { code: error.code, text: error.message } : null })
      if (connection === 'live') outbox.hurry()
    },
  })
}

type Waiting = { readonly store: Store; readonly nap: Nap; readonly signal: AbortSignal }

/** Asks for the head once, and waits until the stream has brought it. */
async function untilReady({ id, http, random }: SessionDeps, { store, nap, signal }: Waiting): Promise<void> {
  for (let failures = 0; ; failures += 1) {
    try {
      const { head } = await http.get<SessionFacts>(pathOf(id), signal)
      return await untilHere(store, head, signal)
    } catch (error) {
      const isFinal = isRefusal(error) && error.code !== STRANGER // the stream comes back from that, too
      if (isFinal || signal.aborted) throw error
      await nap.sleep(Math.max(backoffMs(failures, random), retryAfterMs(error)), signal)
    }
  }
}

function untilHere({ view, get, subscribe }: Store, head: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const { connection, refusal } = get()
      if (view().head < head && connection !== 'refused') return
      leave()
      if (refusal) reject(new FleetlineError(refusal, { isRefused: true }))
      else resolve()
    }
    const leave = subscribe(look)
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
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

type Stopping = { readonly view: View; readonly nap: Nap; readonly signal: AbortSignal }

/** Retries until the outcome is known. The request names the turn, so it cannot stop another one. */
async function stopTurn(
  { id, http, random }: SessionDeps,
  { view, nap, signal }: Stopping,
): Promise<StopAck> {
  const named = liveTurn(view)
  if (!named) return { stopped: false, seq: null }
  for (let failures = 0; ; failures += 1) {
    try {
      return await http.post<StopAck>(`${pathOf(id)}/stop`, named, signal)
    } catch (error) {
      if (isRefusal(error) || signal.aborted) throw error
      await nap.sleep(Math.max(backoffMs(failures, random), retryAfterMs(error)), signal)
    }
  }
}

function pathOf(session: string): string {
  return `/sessions/${encodeURIComponent(session)}`
}

/** Copies the message as it will be sent, so that later changes of the caller's object have no effect. */
function messageOf(input: Input, mintId: () => string): UiMessage {
  if (typeof input === 'string') return { id: mintId(), role: 'user', parts: [{ type: 'text', text: input }] }
  const { id = mintId(), parts, metadata } = input
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

function refused(code: string, text: string, cause?: unknown): FleetlineError {
  return new FleetlineError({ code, text }, { isRefused: true, cause })
}
