// Watches things that all have the same time limit, with one timer for all: they expire in the order in which they begin.
import type { Clock } from './clock.ts'

type Deadlines<Thing> = {
  readonly size: number
  begin(thing: Thing): void
  readonly has: (thing: Thing) => boolean
  /** Returns false if it had already ended. */
  end(thing: Thing): boolean
}
type Options<Thing> = {
  readonly clock: Clock
  readonly afterMs: number
  /** Called for each thing that has not ended in time. It counts as ended from then on. */
  readonly onLate: (thing: Thing) => void
}

const EMPTY = new Error('Nothing is left to be late')

export function createDeadlines<Thing>({ clock, afterMs, onLate }: Options<Thing>): Deadlines<Thing> {
  const ends = new Map<Thing, number>()
  let watching: AbortController | undefined
  const watch = async (signal: AbortSignal) => {
    for (;;) {
      const [first] = ends
      if (!first) return
      const leftMs = first[1] - clock.monotonicMs()
      if (leftMs > 0) await clock.sleep(leftMs, signal)
      else if (end(first[0])) onLate(first[0])
    }
  }
  const end = (thing: Thing) => {
    const was = ends.delete(thing)
    if (ends.size > 0) return was
    watching?.abort(EMPTY)
    watching = undefined
    return was
  }
  return {
    get size() {
      return ends.size
    },
    begin: (thing) => {
      ends.set(thing, clock.monotonicMs() + afterMs)
      if (watching) return
      watching = new AbortController()
      watch(watching.signal).catch(() => undefined) // aborted: nothing is left to watch
    },
    has: (thing) => ends.has(thing),
    end,
  }
}
