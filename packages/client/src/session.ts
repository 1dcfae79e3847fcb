// One session on this device: it follows the session from when it is made until it is closed, and keeps what it was asked
// to send until it is known to be stored.
import type { Ack, Frame, Message as UiMessage, Metadata, Part, StopAck } from '@fleetline/protocol'
import { backoffMs, type Clock, type Random } from './clock.ts'
import { FleetlineError, isRefusal, retryAfterMs, unavailable } from './failure.ts'
import type { Http } from './http.ts'
import { createOutbox, type Outbox } from './outbox.ts'
import { createStore, type Snapshot, type Store } from './store.ts'
import { createStream, type Stream } from './stream.ts'
import { liveTurn, type Effect, type View } from './view.ts'

export type Input =
  | string
  | { readonly parts: readonly Part[]; readonly metadata?: Metadata; readonly id?: string }
export type Sent = { readonly seq: number }

export type Session = {
  /** As it was asked for: its id, or its alias. */
  readonly id: string
  /** What there is now. */
  readonly get: () => Snapshot
  /** Calls the listener after each change; returns what ends that. */
  readonly subscribe: (listener: () => void) => () => void
  /** `sent` rejects if it is refused, or if the session is closed before its outcome is known. */
  readonly send: (input: Input) => { readonly id: string; readonly sent: Promise<Sent> }
  /** Sends a message again that was refused, with its id. */
  readonly retry: (id: string) => void
  /** Forgets a message that was refused. */
  readonly discard: (id: string) => void
  /** Ends the live turn; resolves when it can write no more. `stopped: false`: it had ended, or none is live. */
  readonly stop: () => Promise<StopAck>
  readonly close: () => void
}
export type Waking = { readonly wake: () => void }

export type SessionDeps = {
  readonly id: string
  readonly http: Http
  readonly clock: Clock
  readonly random: Random
  readonly mintId: () => string
}
type Receipt = { readonly resolve: (sent: Sent) => void; readonly reject: (error: Error) => void }

/** Of messages that are not stored yet, or were refused. */
export const OUTBOX_LIMIT = 1_000

export function createSession(deps: SessionDeps): Session & Waking {
  const { id, mintId } = deps
  const [store, closing, receipts] = [createStore(), new AbortController(), createReceipts()]
  const outbox = outboxOf(deps, store, receipts)
  const stream = streamOf(deps, store, outbox, receipts)
  void stream.run(closing.signal)
  void outbox.run(closing.signal)
  return {
    id,
    get: store.get,
    subscribe: store.subscribe,
    send: (input) => {
      const message = messageOf(input, mintId)
      mustFit(store.view(), message.id)
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
    stop: () => stopTurn(deps, store.view(), closing.signal),
    wake: () => {
      stream.wake()
      outbox.wake()
    },
    close: () => {
      const closed = unavailable('The session is closed on this device.')
      closing.abort(closed)
      receipts.rejectAll(closed)
    },
  }
}

type Receipts = ReturnType<typeof createReceipts>

/** Who waits for which message to be stored. */
function createReceipts() {
  const waiting = new Map<string, Receipt>()
  const end = (id: string, how: (receipt: Receipt) => void) => {
    const receipt = waiting.get(id)
    waiting.delete(id)
    if (receipt) how(receipt)
  }
  return {
    wait: (id: string): Promise<Sent> => {
      const sent = new Promise<Sent>((resolve, reject) => waiting.set(id, { resolve, reject }))
      sent.catch(() => undefined) // who does not wait for it sees it in the messages
      return sent
    },
    sent: (id: string, seq: number) => end(id, ({ resolve }) => resolve({ seq })),
    reject: (id: string, error: Error) => end(id, ({ reject }) => reject(error)),
    rejectAll: (error: Error) => {
      for (const id of waiting.keys()) end(id, ({ reject }) => reject(error))
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
    onAck: (ack) => tell(store.take({ type: 'acked', ack }), receipts),
    onRefusal: (id, error) => {
      store.take({ type: 'refused', id, refusal: { code: error.code, text: error.message } })
      receipts.reject(id, error)
    },
  })
}

function streamOf(
  { id, http, clock, random }: SessionDeps,
  store: Store,
  outbox: Outbox,
  receipts: Receipts,
): Stream {
  return createStream({
    http,
    clock,
    random,
    path: () => `${pathOf(id)}/events?${whereOf(store.view())}`,
    take: (data) => {
      const frame = JSON.parse(data) as Frame
      const effects = store.take(frame)
      for (const effect of effects) if (effect.type === 'sent') outbox.settle(effect.id)
      tell(effects, receipts)
      if (frame.type === 'gap') outbox.wake() // what was stored may be gone
      return !effects.some(({ type }) => type === 'ask')
    },
    onConnection: (connection, error) => {
      store.setLink({ connection, refusal: error ? { code: error.code, text: error.message } : null })
      if (connection === 'live') outbox.wake()
    },
  })
}

function tell(effects: readonly Effect[], receipts: Receipts): void {
  for (const effect of effects) if (effect.type === 'sent') receipts.sent(effect.id, effect.seq)
}

/** Asked again until the outcome is known: it names the turn, so that no other one can be hit. */
async function stopTurn(
  { id, http, clock, random }: SessionDeps,
  view: View,
  signal: AbortSignal,
): Promise<StopAck> {
  const named = liveTurn(view)
  if (!named) return { stopped: false, seq: null }
  for (let failures = 0; ; failures += 1) {
    try {
      return await http.post<StopAck>(`${pathOf(id)}/stop`, named, signal)
    } catch (error) {
      if (isRefusal(error) || signal.aborted) throw error
      await clock.sleep(Math.max(backoffMs(failures, random), retryAfterMs(error)), signal)
    }
  }
}

/** What becomes of the live turn is told, also if it has ended meanwhile. */
function whereOf(view: View): string {
  const live = liveTurn(view)
  return `after=${view.head}${live ? `&epoch=${live.epoch}` : ''}`
}

function pathOf(session: string): string {
  return `/sessions/${encodeURIComponent(session)}`
}

function messageOf(input: Input, mintId: () => string): UiMessage {
  if (typeof input === 'string') return { id: mintId(), role: 'user', parts: [{ type: 'text', text: input }] }
  const { id = mintId(), parts, metadata } = input
  return { id, role: 'user', parts, ...(metadata && { metadata }) }
}

function mustFit({ rows }: View, id: string): void {
  const fault =
    rows.length >= OUTBOX_LIMIT
      ? { code: 'too_many', text: `${OUTBOX_LIMIT} messages wait to be sent already.` }
      : rows.some((row) => row.id === id)
        ? { code: 'conflict', text: `The message ${id} waits to be sent already.` }
        : undefined
  if (fault) throw new FleetlineError(fault, { isRefused: true })
}
