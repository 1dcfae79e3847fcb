// What a body may call to say how it ends, beside returning and throwing.
import { Abort, Retry } from '../errors.ts'
import { durationMs } from '../lib/duration.ts'

/** Ends this attempt; the next comes after so long, or then. It does not count. */
export function retryAfter(time: string | Date): never {
  const when = typeof time === 'string' ? { afterMs: durationMs('retryAfter', time) } : { at: time }
  throw new Retry('unavailable', 'The handler asked to be called later', when)
}

/** Ends the task: trying again would not help. It has failed; of kind `system` it is dead, for an operator to look at. */
export function abort(message: string, { kind = 'user' }: { readonly kind?: 'user' | 'system' } = {}): never {
  throw new Abort('invalid', message, { outcome: kind === 'user' ? 'failed' : 'dead' })
}

/** The task is held, and shows the reason, until an operator retries it. */
export function hold(reason: string): never {
  throw new Abort('invalid', reason, { outcome: 'held' })
}
