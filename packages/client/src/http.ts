// A device's requests to its fleet, over fetch. Each resolves, or rejects with a FleetlineError or the reason of the signal.
import type { Clock } from './clock.ts'
import { failureOf, isRefusal, unavailable } from './failure.ts'
import type { Tokens } from './tokens.ts'
import { within } from './within.ts'

export type Http = {
  readonly get: <T>(path: string, signal: AbortSignal) => Promise<T>
  readonly send: <T>(method: string, path: string, body: unknown, signal: AbortSignal) => Promise<T>
  /** Resolves when the answer begins. Its body may last. */
  readonly open: (path: string, headers: Record<string, string>, signal: AbortSignal) => Promise<Opened>
}
export type Opened = {
  readonly answer: Response
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
      const isOld = isRefusal(error) && error.code === 'unauthenticated' && tokens.reject(token)
      if (!isOld) throw error
      const next = await tokens.get()
      return { answer: await reachWith(next, path, init), token: next }
    }
  }
  const json = <T>(path: string, init: Omit<Init, 'signal'>, signal: AbortSignal): Promise<T> =>
    within(clock, signal, async (signal) => {
      const { answer } = await reach(path, { ...init, signal })
      return answer.json().catch((cause: unknown) => {
        signal.throwIfAborted()
        throw unavailable('There is no answer.', cause) // it broke off
      }) as Promise<T>
    })
  return {
    get: (path, signal) => json(path, { cache: 'no-store' }, signal),
    send: (method, path, body, signal) =>
      json(
        path,
        { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
        signal,
      ),
    open: (path, headers, signal) =>
      within(clock, signal, async (signal) => {
        const { answer, token } = await reach(path, { headers, cache: 'no-store', signal })
        return { answer, renewed: (signal) => tokens.renewed(token, signal) }
      }),
  }
}
