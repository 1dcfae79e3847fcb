// Functions that a body may call to end, instead of returning or throwing.
import { Abort, Retry } from '../errors.ts'
import { durationMs } from '../lib/duration.ts'

/** Ends this attempt. The next one comes after this duration, or at this date. The attempt does not count. */
export function retryAfter(time: string | Date): never {
  const when = typeof time === 'string' ? { afterMs: durationMs('retryAfter', time) } : { at: time }
  throw new Retry('unavailable', 'The handler asked to be called later', when)
}

/** Ends the task, because a retry would not help. It has failed; with kind `system` it is dead, for an operator to look at. */
export function abort(message: string, { kind = 'user' }: { readonly kind?: 'user' | 'system' } = {}): never {
  throw new Abort('invalid', message, { outcome: kind === 'user' ? 'failed' : 'dead' })
}

/** Holds the task and shows the reason, until an operator retries it. */
export function hold(reason: string): never {
  throw new Abort('invalid', reason, { outcome: 'held' })
}
