// How busy the event loop is: the part of the last measured window in which it was not idle. A window is 250 ms or longer.
import { performance } from 'node:perf_hooks'
import type { Clock } from './clock.ts'

const WINDOW_MS = 250

/** From 0 to 1. */
export type Utilisation = () => number

export function loopUtilisation(clock: Pick<Clock, 'monotonicMs'>): Utilisation {
  let [mark, markMs, last] = [performance.eventLoopUtilization(), clock.monotonicMs(), 0]
  return () => {
    if (clock.monotonicMs() - markMs < WINDOW_MS) return last
    last = performance.eventLoopUtilization(mark).utilization
    ;[mark, markMs] = [performance.eventLoopUtilization(), clock.monotonicMs()]
    return last
  }
}
