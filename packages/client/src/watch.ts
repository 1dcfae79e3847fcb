// Cuts a connection on which nothing was heard for 40 s: a pod sends something every 25 s.
import type { Clock } from './clock.ts'

const SILENCE_MS = 40_000
const DOUBT_MS = 30_000 // after a wake-up, a connection that was silent for longer is replaced
/** Why a connection was cut: there is a new token. */
export const RENEWED: unique symbol = Symbol('renewed')

export type Watch = {
  readonly signal: AbortSignal
  readonly heard: () => void
  /** Cuts it unless something is heard in this time. */
  readonly doubt: (ms: number) => void
  readonly isDoubtful: () => boolean
  readonly cut: () => void
  readonly renew: () => void
}

/** Its signal is aborted when the connection is over, or when the given signal is aborted. */
export function watchOf(clock: Clock, signal: AbortSignal): Watch {
  const cut = new AbortController()
  let heardMs = clock.now()
  const ageMs = () => {
    const ms = clock.now() - heardMs
    return ms < 0 ? Infinity : ms // the clock was set back
  }
  const own = AbortSignal.any([signal, cut.signal])
  const look = async () => {
    while (ageMs() < SILENCE_MS) await clock.sleep(SILENCE_MS - ageMs(), own)
    cut.abort()
  }
  look().catch(() => undefined) // aborted: the connection is over
  return {
    signal: own,
    heard: () => void (heardMs = clock.now()),
    doubt: (ms) => {
      const sinceMs = heardMs
      clock.sleep(ms, own).then(
        () => heardMs === sinceMs && cut.abort(),
        () => undefined, // it is over
      )
    },
    isDoubtful: () => ageMs() > DOUBT_MS,
    cut: () => cut.abort(),
    renew: () => cut.abort(RENEWED),
  }
}
