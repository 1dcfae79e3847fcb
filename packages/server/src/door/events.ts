// Sends events as an answer (`text/event-stream`). The door asks for the next event only when the socket has taken the last
// one, so a slow reader costs the memory of one event. A reader that takes no byte for `stallMs` is disconnected; it resumes
// from the last event id that it has. A comment goes out every 20 s, so that no proxy takes the stream for dead. The stream
// ends when the reader leaves, when the door stops, or when its source fails, which is logged. It also ends when the caller is
// not let in any more (S9); its last event, `ended`, then says why. If the reader has left or got a timeout before the stream
// could begin, nothing is streamed, but the source is still told to release what it holds.
import type { ServerResponse } from 'node:http'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'

export type SentEvent = { readonly id: string; readonly data: { readonly type: string } }

/** Passed to the source. It must stop once the signal is aborted. `cut` closes the stream at once. */
export type Listener = { readonly signal: AbortSignal; readonly cut: () => void }

/** The body that a handler returns for a stream. */
export type Events = (listener: Listener) => AsyncIterable<SentEvent>

type Options = {
  readonly events: Events
  readonly headers: Readonly<Record<string, unknown>>
  readonly stopping: AbortSignal
  /** Throws a `Rejected` if the caller is not let in any more. */
  readonly recheck: () => Promise<void>
  readonly stallMs: number
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

const COMMENT = ':\n\n'
const COMMENT_MS = 20_000
const RECHECK_MS = 2_000
const UNKNOWN_MS = 5_000
const SLOT_MS = 100

/** Takes over the response. Resolves when the stream is over and never rejects. */
export async function sendEvents(raw: ServerResponse, options: Options): Promise<void> {
  try {
    if (raw.headersSent || raw.destroyed) await letGo(options.events)
    else await streamTo(raw, options)
  } catch (error) {
    options.onError(error)
  }
}

/** Asks the source once, under an aborted signal, so that it releases what it holds. */
async function letGo(events: Events): Promise<void> {
  const listener = { signal: AbortSignal.abort(), cut: () => undefined }
  await events(listener)[Symbol.asyncIterator]().next()
}

async function streamTo(raw: ServerResponse, options: Options): Promise<void> {
  const [gone, refused] = [new AbortController(), new AbortController()]
  let refusal: Rejected | undefined
  raw.once('close', () => gone.abort())
  raw.on('error', () => gone.abort()) // 'close' follows; without a listener the error would be thrown
  const signal = AbortSignal.any([gone.signal, refused.signal, options.stopping])
  // Node's socket timer: while a write is in progress, every byte that the reader takes restarts it.
  raw.setTimeout(options.stallMs, () => raw.writableLength > 0 && raw.destroy())
  const headers = { ...options.headers, 'content-type': 'text/event-stream', connection: 'close' }
  raw.writeHead(200, headers as Record<string, string>).write(COMMENT)
  void keepAlive(raw, options.clock, signal)
  const admission = admissionOf(options.clock)
  void untilRefused(options, admission, signal).then((error) => {
    refusal = error
    refused.abort()
    admission.know(Number.POSITIVE_INFINITY)
  })
  try {
    for await (const event of options.events({ signal, cut: () => raw.destroy() })) {
      await admission.known()
      if (signal.aborted) break
      await written(raw, textOf(event), signal)
    }
    raw.end(refusal && endOf(refusal))
  } catch (error) {
    if (!signal.aborted) options.onError(error)
    raw.destroy() // cut instead of ended, so that the reader comes back for the rest
  }
}

/** Resolves once the socket has taken the text. Text that Node still buffers uses our memory. */
function written(raw: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const onAbort = () => resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    raw.write(text, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
  })
}

async function keepAlive(raw: ServerResponse, clock: Clock, signal: AbortSignal): Promise<void> {
  const pause = () =>
    clock.sleep(COMMENT_MS, signal).then(
      () => !raw.writableEnded,
      () => false, // aborted
    )
  while (await pause()) if (!raw.writableNeedDrain) raw.write(COMMENT)
}

type Admission = ReturnType<typeof admissionOf>

/** When the caller was last known to be let in. */
function admissionOf(clock: Clock) {
  let [knownMs, next] = [clock.monotonicMs(), Promise.withResolvers<void>()]
  return {
    know: (atMs: number) => {
      knownMs = atMs
      next.resolve()
      next = Promise.withResolvers()
    },
    /** Resolves at once if it was known in the last 5 s, or else when it is known. */
    known: async () => {
      if (clock.monotonicMs() >= knownMs + UNKNOWN_MS) await next.promise
    },
  }
}

/** Asks every 2 s whether the caller is still let in; resolves to the reason why not. If nobody has known for 5 s, because PostgreSQL
 *  does not answer, the stream is open and silent until somebody knows. Streams ask in slots of 100 ms, so that many of them
 *  share one read. */
async function untilRefused(
  { recheck, clock }: Options,
  admission: Admission,
  signal: AbortSignal,
): Promise<Rejected | undefined> {
  try {
    for (;;) {
      await clock.sleep(RECHECK_MS - (clock.monotonicMs() % SLOT_MS), signal)
      const askedMs = clock.monotonicMs()
      await recheck().then(
        () => admission.know(askedMs),
        (error: unknown) => {
          if (error instanceof Rejected) throw error
        },
      )
    }
  } catch (error) {
    return error instanceof Rejected ? error : undefined // otherwise the stream is over
  }
}

/** It has no id, so that a reader resumes after the event before it. */
function endOf({ code, message }: Rejected): string {
  return `event: ended\ndata: ${JSON.stringify({ type: 'ended', code, text: message })}\n\n`
}

function textOf({ id, data }: SentEvent): string {
  return `event: ${data.type}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`
}
