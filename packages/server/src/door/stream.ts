// Sends a stream as an answer: server-sent events (events.ts), lines of JSON (lines.ts), or chunks of the AI SDK (ui-chunks.ts). The door asks for the next piece only when the
// socket has taken the last one, so a slow reader costs the memory of one piece. A reader that takes no byte for `stallMs` is
// disconnected. A stream of a format with a comment sends one every 20 s, so that no proxy takes the stream for dead. The stream ends when
// the reader leaves, when the door stops, when its source ends, or when its source fails, which is logged. It also ends when the caller is
// not let in any more (S9); its last piece, `ended`, then says why. If the reader has left or got a timeout before the stream could
// begin, nothing is streamed, but the source is still told to release what it holds.
import type { ServerResponse } from 'node:http'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { admissionOf, untilRefused } from './admission.ts'

/** Passed to the source. It must stop once the signal is aborted. `cut` closes the stream at once. */
export type Listener = { readonly signal: AbortSignal; readonly cut: () => void }

/** Where the pieces of a stream come from. */
export type StreamSource<Piece> = (listener: Listener) => AsyncIterable<Piece>

/** How pieces are written. */
export type StreamFormat<Piece> = {
  readonly contentType: string
  /** Sent at the beginning and while nothing else is sent. Empty: none. */
  readonly comment: string
  readonly headers?: Readonly<Record<string, string>>
  readonly textOf: (piece: Piece) => string
  /** What a reader is told last if it is not let in any more. */
  readonly lastText?: (refusal: Rejected, last: Piece | undefined) => string
  /** If given, the answer ends only after its last piece. Otherwise the connection breaks. */
  readonly isLast?: (piece: Piece) => boolean
}

type Options<Piece> = {
  readonly source: StreamSource<Piece>
  readonly format: StreamFormat<Piece>
  readonly headers: Readonly<Record<string, unknown>>
  readonly stopping: AbortSignal
  /** Throws a `Rejected` if the caller is not let in any more. */
  readonly recheck: () => Promise<unknown>
  readonly stallMs: number
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

const COMMENT_MS = 20_000

/** Takes over the response. Resolves when the stream is over and never rejects. */
export async function sendStream<Piece>(raw: ServerResponse, options: Options<Piece>): Promise<void> {
  try {
    if (raw.headersSent || raw.destroyed) await letGo(options.source)
    else await streamTo(raw, options)
  } catch (error) {
    options.onError(error)
  }
}

/** Asks the source once, under an aborted signal, so that it releases what it holds. */
async function letGo<Piece>(source: StreamSource<Piece>): Promise<void> {
  const listener = { signal: AbortSignal.abort(), cut: () => undefined }
  await source(listener)[Symbol.asyncIterator]().next()
}

async function streamTo<Piece>(raw: ServerResponse, options: Options<Piece>): Promise<void> {
  const { contentType, headers: own, comment, textOf, lastText, isLast } = options.format
  const [gone, refused] = [new AbortController(), new AbortController()]
  let refusal: Rejected | undefined
  raw.once('close', () => gone.abort())
  raw.on('error', () => gone.abort()) // 'close' follows; without a listener the error would be thrown
  const signal = AbortSignal.any([gone.signal, refused.signal, options.stopping])
  // Node's socket timer: while a write is in progress, every byte that the reader takes restarts it.
  raw.setTimeout(options.stallMs, () => raw.writableLength > 0 && raw.destroy())
  const headers = { ...options.headers, ...own, 'content-type': contentType, connection: 'close' }
  raw.writeHead(200, headers as Record<string, string>).flushHeaders()
  if (comment !== '') void keepAlive(raw, comment, options.clock, signal)
  const admission = admissionOf(options.clock)
  void untilRefused(options, admission, signal).then((error) => {
    refusal = error
    refused.abort()
    admission.know(Number.POSITIVE_INFINITY)
  })
  let [isWhole, last]: [boolean, Piece | undefined] = [isLast === undefined, undefined]
  try {
    for await (const piece of options.source({ signal, cut: () => raw.destroy() })) {
      await admission.known()
      if (signal.aborted) break
      await written(raw, textOf(piece), signal)
      last = piece
      isWhole ||= isLast!(piece)
    }
    if (isWhole) raw.end(refusal && lastText?.(refusal, last))
    else raw.destroy()
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

async function keepAlive(
  raw: ServerResponse,
  comment: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  raw.write(comment)
  const pause = () =>
    clock.sleep(COMMENT_MS, signal).then(
      () => !raw.writableEnded,
      () => false, // aborted
    )
  while (await pause()) if (!raw.writableNeedDrain) raw.write(comment)
}
