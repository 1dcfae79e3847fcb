// Sleeps that can be cut short.
import type { Clock } from './clock.ts'

export type Nap = {
  /** Resolves when the time has passed, when it is woken, or when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
  readonly wake: () => void
}

export function napOf(clock: Clock): Nap {
  let woken = new AbortController()
  return {
    sleep: async (ms, signal) => {
      await clock.sleep(ms, AbortSignal.any([signal, woken.signal])).catch(() => undefined)
    },
    wake: () => {
      woken.abort()
      woken = new AbortController()
    },
  }
}
