// Things that are late after the same time, with one timer for all: they begin in the order in which they will be late.
import type { Clock } from './clock.ts'

type Deadlines<Thing> = {
  readonly size: number
  begin(thing: Thing): void
  readonly has: (thing: Thing) => boolean
  /** Answers false if it has ended before. */
  end(thing: Thing): boolean
}
type Options<Thing> = {
  readonly clock: Clock
  readonly afterMs: number
  /** Called for each that has not ended by then; it has now. */
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
      watch(watching.signal).catch(() => undefined) // nothing was left
    },
    has: (thing) => ends.has(thing),
    end,
  }
}
