// Runs one body within its time limit. Once its signal is aborted, its return value is ignored: it may have returned because of
// the abort. A body that continues after the abort is abandoned after a grace period.
import type { Clock } from '../lib/clock.ts'
import { GRACE_MS } from '../task/runner.ts'
import type { Log } from '../telemetry/log.ts'

export type AttemptOutcome =
  | { readonly type: 'returned'; readonly value: unknown }
  | { readonly type: 'thrown'; readonly error: unknown }
  | { readonly type: 'timeout' }
  /** Ended from outside. The attempt does not count. */
  | { readonly type: 'aborted' }

type Around = { readonly clock: Clock; readonly log: Log; readonly ending: AbortController }

const TIMEOUT = new Error('The attempt took too long')
const OVER = new Error('The attempt has ended')

export async function attempt(
  { clock, log, ending }: Around,
  timeoutMs: number,
  body: (signal: AbortSignal) => unknown,
): Promise<AttemptOutcome> {
  if (ending.signal.aborted) return { type: 'aborted' }
  const own = new AbortController()
  const over = new AbortController()
  const { signal } = own
  const aborted = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => aborted.resolve(), { once: true })
  const onEnding = () => own.abort(ending.signal.reason)
  ending.signal.addEventListener('abort', onEnding, { once: true })
  clock.sleep(timeoutMs, over.signal).then(
    () => own.abort(TIMEOUT),
    () => undefined, // the body has ended
  )
  const leftBehind = aborted.promise
    .then(() => clock.sleep(GRACE_MS, over.signal))
    .then(() => log.warn('a handler goes on after its signal'))
    .catch(() => undefined) // the body has ended
  const outcome = await Promise.race([outcomeOf(() => body(signal)), leftBehind])
  over.abort(OVER)
  ending.signal.removeEventListener('abort', onEnding)
  if (signal.aborted) return { type: signal.reason === TIMEOUT ? 'timeout' : 'aborted' }
  return outcome!
}

/** Runs a body without a time limit. */
export async function outcomeOf(body: () => unknown): Promise<AttemptOutcome> {
  try {
    return { type: 'returned', value: await body() }
  } catch (error) {
    return { type: 'thrown', error }
  }
}
