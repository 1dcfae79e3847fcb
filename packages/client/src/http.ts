// A device's requests to its fleet, over fetch. Each resolves, or rejects with a FleetlineError or the reason of the signal.
import type { Clock } from './clock.ts'
import { failureOf, unavailable } from './failure.ts'

export type Http = {
  readonly get: <T>(path: string, signal: AbortSignal) => Promise<T>
  readonly post: <T>(path: string, body: unknown, signal: AbortSignal) => Promise<T>
  /** Resolves when the stream is open. */
  readonly events: (
    path: string,
    lastId: string | undefined,
    signal: AbortSignal,
  ) => Promise<ReadableStream<Uint8Array>>
}
type Deps = { readonly url: string; readonly fetch: typeof fetch; readonly clock: Clock }

const ANSWER_MS = 30_000
const EVENTS = 'text/event-stream'

export function createHttp({ url, fetch, clock }: Deps): Http {
  const reach = async (path: string, init: RequestInit & { readonly signal: AbortSignal }) => {
    const answer = await fetch(`${url}/v1${path}`, init).catch((cause: unknown) => {
      init.signal.throwIfAborted()
      throw unavailable('There is no answer.', cause)
    })
    if (!answer.ok) throw await failureOf(answer)
    return answer
  }
  const jsonOf = async <T>(answer: Response, signal: AbortSignal): Promise<T> => {
    const told = await answer.json().catch((cause: unknown) => {
      signal.throwIfAborted()
      throw unavailable('The answer broke off.', cause)
    })
    return told as T
  }
  return {
    get: <T>(path: string, signal: AbortSignal) =>
      within(clock, signal, async (signal) =>
        jsonOf<T>(await reach(path, { cache: 'no-store', signal }), signal),
      ),
    post: <T>(path: string, body: unknown, signal: AbortSignal) =>
      within(clock, signal, async (signal) => {
        const headers = { 'content-type': 'application/json' }
        const answer = await reach(path, { method: 'POST', headers, body: JSON.stringify(body), signal })
        return jsonOf<T>(answer, signal)
      }),
    events: (path, lastId, signal) =>
      within(clock, signal, async (signal) => {
        const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId }
        const init = { headers: { accept: EVENTS, ...headers }, cache: 'no-store', signal } as const
        const { body, headers: told } = await reach(path, init)
        if (!body || !told.get('content-type')?.startsWith(EVENTS)) throw unavailable('These are no events.')
        return body
      }),
  }
}

/** Limits the time until the answer. The outcome of a late request is unknown. The signal stays valid for the answer's body. */
async function within<T>(
  clock: Clock,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const [late, done] = [new AbortController(), new AbortController()]
  clock.sleep(ANSWER_MS, done.signal).then(
    () => late.abort(unavailable('There was no answer in time.')),
    () => undefined, // the answer came in time
  )
  try {
    return await work(AbortSignal.any([signal, late.signal]))
  } finally {
    done.abort()
  }
}
