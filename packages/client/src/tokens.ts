// The token that requests carry: a text, or what a function returns. The function is called before the first request, then min(60
// s, a third of the token's life) before the token expires, and when the fleet has rejected the token. Requests at the same time
// share one call, and do not wait for it while there is a token that has not expired.
import { backoffMs, type Clock, type Random } from './clock.ts'
import { FleetlineError, unavailable } from './failure.ts'
import { within } from './within.ts'

export type TokenSource = string | (() => string | Promise<string>)

export type Tokens = {
  /** Undefined if requests carry none. Rejects with a FleetlineError. */
  readonly get: () => Promise<string | undefined>
  /** Call it when the fleet has rejected this token. Returns whether there may be another one. */
  readonly reject: (token: string | undefined) => boolean
  /** Resolves when another token than this one is to be used. */
  readonly renewed: (token: string | undefined, signal: AbortSignal) => Promise<void>
}
type Deps = {
  readonly source: TokenSource | undefined
  readonly clock: Clock
  readonly random: Random
}
type Held = { readonly token: string; readonly dueMs: number; readonly endMs: number }

const MARGIN_MS = 60_000
const LEAST_MS = 1_000
const LONGEST_MS = 2 ** 31 - 1 // of a timer

export function createTokens({ source, clock, random }: Deps): Tokens {
  if (typeof source !== 'function')
    return { get: async () => source, reject: () => false, renewed: () => new Promise(() => undefined) }
  let [held, calling]: [Held | undefined, Promise<string> | undefined] = [undefined, undefined]
  const call = async (): Promise<string> => {
    const sinceMs = clock.now()
    try {
      const token = await inTime(clock, source)
      held = token === held?.token ? againSoon(held, sinceMs) : { token, ...timesOf(token, sinceMs) }
      return token
    } catch (cause) {
      throw cause instanceof FleetlineError ? cause : unavailable('The function `token` has failed.', cause)
    } finally {
      calling = undefined
    }
  }
  const renew = () => (calling ??= call())
  const isDue = () => held === undefined || clock.now() >= held.dueMs
  return {
    get: async () => {
      if (!isDue()) return held!.token
      const next = renew()
      if (!held || clock.now() >= held.endMs) return next
      next.catch(() => undefined) // the next request calls again
      return held.token
    },
    reject: (token) => {
      if (held?.token === token) held = undefined
      return true
    },
    renewed: async (token, signal) => {
      for (let failures = 0; held && held.token === token; failures += 1) {
        const leftMs = held.dueMs - clock.now()
        await clock.sleep(leftMs > 0 ? Math.min(leftMs, LONGEST_MS) : backoffMs(failures, random), signal)
        if (isDue()) await renew().catch(() => undefined) // tried again
        else failures = 0
      }
    },
  }
}

/** When to renew a token that was asked for at this time, and when it expires. A text that is no JSON Web Token is used until it
 *  is rejected. */
function timesOf(token: string, sinceMs: number): Omit<Held, 'token'> {
  const lifeMs = lifeOf(token)
  if (!(lifeMs > 0)) return { dueMs: Infinity, endMs: Infinity }
  const usedMs = Math.max(LEAST_MS, lifeMs - Math.min(MARGIN_MS, lifeMs / 3))
  return { dueMs: sinceMs + usedMs, endMs: sinceMs + lifeMs }
}

/** The back end has returned the same token again: it does not live longer for that. */
function againSoon({ token, endMs }: Held, nowMs: number): Held {
  return { token, endMs, dueMs: nowMs + Math.max(LEAST_MS, (endMs - nowMs) / 2) }
}

/** The token's end less its beginning: the clock of a device is often wrong. NaN if the token does not say. */
function lifeOf(token: string): number {
  try {
    const claims = atob(token.split('.')[1]!.replaceAll('-', '+').replaceAll('_', '/'))
    const { iat, exp } = JSON.parse(claims) as { readonly iat?: number; readonly exp?: number }
    return (exp! - iat!) * 1_000
  } catch {
    return NaN
  }
}

async function inTime(clock: Clock, source: () => string | Promise<string>): Promise<string> {
  const { signal: never } = new AbortController()
  const token = await within(clock, never, () => source(), 'The function `token` took longer than 30 s.')
  if (typeof token !== 'string' || token === '') throw unavailable('The function `token` returned no token.')
  return token
}
