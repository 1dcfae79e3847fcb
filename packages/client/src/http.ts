// A device's requests to its fleet, over fetch. Each resolves, or rejects with a FleetlineError or the reason of the signal.
import type { Clock } from './clock.ts'
import { failureOf, isRefusal, unavailable } from './failure.ts'
import type { Tokens } from './tokens.ts'

export type Http = {
  readonly get: <T>(path: string, signal: AbortSignal) => Promise<T>
  readonly post: <T>(path: string, body: unknown, signal: AbortSignal) => Promise<T>
  readonly patch: <T>(path: string, body: unknown, signal: AbortSignal) => Promise<T>
  /** Resolves when the stream is open. */
  readonly events: (path: string, lastId: string | undefined, signal: AbortSignal) => Promise<Opened>
}
export type Opened = {
  readonly body: ReadableStream<Uint8Array>
  /** Resolves when the stream should be opened again, with another token. */
  readonly renewed: (signal: AbortSignal) => Promise<void>
}
type Deps = {
  readonly url: string
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly tokens: Tokens
}
type Init = RequestInit & { readonly headers?: Record<string, string>; readonly signal: AbortSignal }

const ANSWER_MS = 30_000
const EVENTS = 'text/event-stream'

export function createHttp({ url, fetch, clock, tokens }: Deps): Http {
  const reachWith = async (token: string | undefined, path: string, init: Init) => {
    const headers = { ...init.headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) }
    const answer = await fetch(`${url}/v1${path}`, { ...init, headers }).catch((cause: unknown) => {
      init.signal.throwIfAborted()
      throw unavailable('There is no answer.', cause)
    })
    if (!answer.ok) throw await failureOf(answer)
    return answer
  }
  /** A request whose token is rejected is repeated once, with another token. */
  const reach = async (path: string, init: Init) => {
    const token = await tokens.get()
    try {
      return { answer: await reachWith(token, path, init), token }
    } catch (error) {
      const isOld = isRefusal(error) && error.code === 'unauthenticated' && token !== undefined
      if (!isOld || !tokens.reject(token)) throw error
      const next = await tokens.get()
      return { answer: await reachWith(next, path, init), token: next }
    }
  }
  const jsonOf = async <T>(answer: Response, signal: AbortSignal): Promise<T> => {
    const told = await answer.json().catch((cause: unknown) => {
      signal.throwIfAborted()
      throw unavailable('The answer broke off.', cause)
    })
    return told as T
  }
  const sendWith =
    (method: string) =>
    <T>(path: string, body: unknown, signal: AbortSignal) =>
      within(clock, signal, async (signal) => {
        const headers = { 'content-type': 'application/json' }
        const { answer } = await reach(path, { method, headers, body: JSON.stringify(body), signal })
        return jsonOf<T>(answer, signal)
      })
  return {
    get: <T>(path: string, signal: AbortSignal) =>
      within(clock, signal, async (signal) =>
        jsonOf<T>((await reach(path, { cache: 'no-store', signal })).answer, signal),
      ),
    post: sendWith('POST'),
    patch: sendWith('PATCH'),
    events: (path, lastId, signal) =>
      within(clock, signal, async (signal) => {
        const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId }
        const init = { headers: { accept: EVENTS, ...headers }, cache: 'no-store', signal } as const
        const { answer, token } = await reach(path, init)
        const isStream = answer.headers.get('content-type')?.startsWith(EVENTS)
        if (!answer.body || !isStream) throw unavailable('These are no events.')
        const renewed = async (signal: AbortSignal) => tokens.renewed(token, signal)
        return { body: answer.body, renewed }
      }),
  }
}

/** Limits the time until the answer. The outcome of a late request is unknown. The signal stays valid for the answer's body.
 *  It also ends a wait for a token. */
export async function within<T>(
  clock: Clock,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const [late, done] = [new AbortController(), new AbortController()]
  clock.sleep(ANSWER_MS, done.signal).then(
    () => late.abort(unavailable('There was no answer in time.')),
    () => undefined, // the answer came in time
  )
  try {
    const own = AbortSignal.any([signal, late.signal])
    return await new Promise<T>((resolve, reject) => {
      own.addEventListener('abort', () => reject(own.reason as Error), { once: true })
      work(own).then(resolve, reject)
    })
  } finally {
    done.abort()
  }
}
