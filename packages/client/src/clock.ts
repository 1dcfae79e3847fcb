// Time and randomness as arguments: no other file here reads a clock, sets a timer or draws a random number.

export type Clock = {
  /** Milliseconds since 1970. Must go on while a device sleeps. */
  readonly now: () => number
  /** Rejects when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}
/** From 0 to below 1. */
export type Random = () => number

export function systemClock(): Clock {
  return { now: () => Date.now(), sleep }
}

export function systemRandom(): number {
  return Math.random()
}

/** Full jitter: drawn evenly from the whole range, so that devices that lost a pod together do not return together. */
export function backoffMs(failures: number, random: Random): number {
  return random() * Math.min(30_000, 250 * 2 ** failures)
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}
