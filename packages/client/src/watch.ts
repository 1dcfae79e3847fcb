// Cuts a connection on which nothing was heard for 40 s: a pod sends something every 25 s.
import type { Clock } from './clock.ts'
import { unavailable } from './failure.ts'

const SILENCE_MS = 40_000
const DOUBT_MS = 30_000 // after a wake-up, a connection that was silent for longer is replaced
export const RENEWED: Error = unavailable('There is a new token.')

export type Watch = {
  readonly signal: AbortSignal
  readonly heard: () => void
  /** Cuts it unless something is heard in this time. */
  readonly doubt: (ms: number) => void
  readonly isDoubtful: () => boolean
  readonly cut: () => void
  readonly renew: () => void
  readonly end: () => void
}

/** Its signal is aborted when the connection is over, or when the given signal is aborted. */
export function watchOf(clock: Clock, signal: AbortSignal): Watch {
  const cut = new AbortController()
  let heardMs = clock.now()
  const ageMs = () => {
    const ms = clock.now() - heardMs
    return ms < 0 ? Number.POSITIVE_INFINITY : ms // the clock was set back
  }
  const own = AbortSignal.any([signal, cut.signal])
  const look = async () => {
    while (ageMs() < SILENCE_MS) await clock.sleep(SILENCE_MS - ageMs(), own)
    cut.abort(unavailable('Nothing was heard for 40 s.'))
  }
  look().catch(() => undefined) // aborted: the connection is over
  return {
    signal: own,
    heard: () => void (heardMs = clock.now()),
    doubt: (ms) => {
      const sinceMs = heardMs
      clock.sleep(ms, own).then(
        () => heardMs === sinceMs && cut.abort(unavailable('There was no answer in time.')),
        () => undefined, // it is over
      )
    },
    isDoubtful: () => ageMs() > DOUBT_MS,
    cut: () => cut.abort(unavailable('The device woke up.')),
    renew: () => cut.abort(RENEWED),
    end: () => cut.abort(),
  }
}
