// Repeats a request until its outcome is known.
import { backoffMs, type Random } from './clock.ts'
import { isRefusal, retryAfterMs } from './failure.ts'
import type { Nap } from './nap.ts'

type Deps = { readonly nap: Nap; readonly random: Random; readonly signal: AbortSignal }

/** Rejects if the request is refused, or when the signal is aborted. */
export async function insist<T>({ nap, random, signal }: Deps, work: () => Promise<T>): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await work()
    } catch (error) {
      if (isRefusal(error) || signal.aborted) throw error
      await nap.sleep(Math.max(backoffMs(failures, random), retryAfterMs(error)), signal)
      signal.throwIfAborted()
    }
  }
}
