// Repeats a call until it succeeds, with full jitter between tries. For writes that must happen and are safe to repeat.
import { backoffMs } from './backoff.ts'
import type { Clock } from './clock.ts'
import type { Random } from './random.ts'

type Deps = {
  readonly clock: Clock
  readonly random: Random
  readonly signal: AbortSignal
  readonly onFailure: (error: unknown, failures: number) => void
}

const AGAIN = { baseMs: 50, capMs: 5_000 }

/** Undefined once the signal is aborted. It is unknown then whether the last call took effect. */
export async function retryUntilAnswered<T>(
  { clock, random, signal, onFailure }: Deps,
  call: () => Promise<T>,
): Promise<T | undefined> {
  const over = Promise.withResolvers<undefined>()
  const onAbort = () => over.resolve(undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        return await Promise.race([call(), over.promise])
      } catch (error) {
        onFailure(error, failures)
        await clock.sleep(backoffMs(AGAIN, failures, random), signal).catch(() => undefined) // aborted
      }
    }
    return undefined
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
