// Repeats work, as a service. The next round starts `everyMs` after the last one ended, so rounds never overlap. With
// `random`, the pause varies by ±20 %, so that pods that started together drift apart. A failed round is reported to
// `onError`, and the next round follows. Stop aborts the current round and waits for its end.
import { spreadMs } from './backoff.ts'
import type { Clock } from './clock.ts'
import type { Service } from './lifecycle.ts'
import type { Random } from './random.ts'

type Repeated = {
  readonly clock: Clock
  readonly name: string
  readonly everyMs: number
  readonly random?: Random
  readonly onError: (error: unknown) => void
}

export function every(
  { clock, name, everyMs, random, onError }: Repeated,
  work: (signal: AbortSignal) => Promise<void>,
): Service {
  const stopping = new AbortController()
  let loop: Promise<void> | undefined
  const run = async () => {
    while (!stopping.signal.aborted) {
      await work(stopping.signal).catch((error: unknown) => stopping.signal.aborted || onError(error))
      const pauseMs = random ? spreadMs(everyMs, random) : everyMs
      await clock.sleep(pauseMs, stopping.signal).catch(() => undefined) // aborted: the loop ends
    }
  }
  return {
    name,
    start: async () => void (loop ??= run()),
    stop: async () => {
      stopping.abort(new Error(`${name} stops`))
      await loop
    },
  }
}
