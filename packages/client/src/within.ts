// Limits the time until an answer. The outcome of a late request is unknown.
import type { Clock } from './clock.ts'
import { unavailable } from './failure.ts'

const ANSWER_MS = 30_000

/** Rejects as well when the signal is aborted. The signal that `work` gets stays valid after the answer, for its body. */
export async function within<T>(
  clock: Clock,
  signal: AbortSignal,
  work: (signal: AbortSignal) => T | Promise<T>,
  late = 'There was no answer in time.',
): Promise<T> {
  signal.throwIfAborted()
  const [over, done] = [new AbortController(), new AbortController()]
  clock.sleep(ANSWER_MS, done.signal).then(
    () => over.abort(unavailable(late)),
    () => undefined, // the answer came in time
  )
  try {
    const own = AbortSignal.any([signal, over.signal])
    return await new Promise<T>((resolve, reject) => {
      // Without `done`, the listener would keep `own` alive as long as `signal`.
      own.addEventListener('abort', () => reject(own.reason as Error), { signal: done.signal })
      Promise.resolve(work(own)).then(resolve, reject)
    })
  } finally {
    done.abort()
  }
}
