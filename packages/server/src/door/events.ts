// Events as an answer (`text/event-stream`). The next event is asked for when the socket has taken the one before, so a
// reader costs one event of memory however slow it is; one that takes no byte for `stallMs` is closed, and the last id
// that it has is where it resumes. A comment goes out now and then, so that nothing in between takes the stream for
// dead. It ends when the reader leaves, when the door stops, and, told to the log, when its source fails. A reader who
// left, or was told that it took too long, before the stream could begin gets none; its source is told all the same.
import type { ServerResponse } from 'node:http'
import type { Clock } from '../lib/clock.ts'

export type SentEvent = { readonly id: string; readonly data: { readonly type: string } }

/** Who is told: the source is asked for nothing more once the signal is aborted; `cut` closes the stream at once. */
export type Listener = { readonly signal: AbortSignal; readonly cut: () => void }

/** What a handler answers with. */
export type Events = (listener: Listener) => AsyncIterable<SentEvent>

type Options = {
  readonly events: Events
  readonly headers: Readonly<Record<string, unknown>>
  readonly stopping: AbortSignal
  readonly stallMs: number
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

const COMMENT = ':\n\n'
const COMMENT_MS = 20_000

/** Writes to a response that is nobody else's any more; resolves when the stream is over, and never rejects. */
export async function sendEvents(raw: ServerResponse, options: Options): Promise<void> {
  try {
    if (raw.headersSent || raw.destroyed) await letGo(options.events)
    else await streamTo(raw, options)
  } catch (error) {
    options.onError(error)
  }
}

/** A source gives back what it holds when it is asked, once, under an aborted signal. */
async function letGo(events: Events): Promise<void> {
  const listener = { signal: AbortSignal.abort(), cut: () => undefined }
  await events(listener)[Symbol.asyncIterator]().next()
}

async function streamTo(raw: ServerResponse, options: Options): Promise<void> {
  const gone = new AbortController()
  raw.once('close', () => gone.abort())
  raw.on('error', () => gone.abort()) // it will close; heard, so that nobody else has to
  const signal = AbortSignal.any([gone.signal, options.stopping])
  // Node's timer of a socket: while a write is under way, any byte taken begins it anew.
  raw.setTimeout(options.stallMs, () => raw.writableLength > 0 && raw.destroy())
  const headers = { ...options.headers, 'content-type': 'text/event-stream', connection: 'close' }
  raw.writeHead(200, headers as Record<string, string>).write(COMMENT)
  void keepAlive(raw, options.clock, signal)
  try {
    for await (const event of options.events({ signal, cut: () => raw.destroy() })) {
      if (signal.aborted) break
      await written(raw, textOf(event), signal)
    }
    raw.end()
  } catch (error) {
    if (!signal.aborted) options.onError(error)
    raw.destroy() // cut, not ended: the reader comes back for the rest
  }
}

/** Once the socket has taken it: what it only keeps for later is still ours to hold. */
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

function textOf({ id, data }: SentEvent): string {
  return `event: ${data.type}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`
}
