// Takes a pod out of work without cutting anything off: before it stops, or because an operator has asked for it.
//   at once             it is not ready, claims nothing and gives up its term; its ports stay open
//   after `unreadyMs`   load balancers have seen that. It asks its clients to move to other pods, spread over up to ten seconds
//   until `drainMs`     tasks and turns may end by themselves; then it hands them back, and the attempt does not count. Downloads may
//                       end, too
// It is done as soon as nothing runs and no client is left. An operator can take a drain back, but not a stop.
import type { Config } from '../config.ts'
import { MOVE_MS } from '../door/moving.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../telemetry/log.ts'
import type { Readiness } from './readiness.ts'

export type Draining = {
  /** An operator asks for it. */
  readonly begin: () => void
  /** The pod takes new work again, unless it stops. */
  readonly undo: () => void
  /** Before a stop. Goes on with a drain that has begun. Resolves when it is done. */
  readonly end: () => Promise<void>
}
type Deps = {
  readonly readiness: Pick<Readiness, 'drain' | 'undrain'>
  readonly fleet: Pick<Fleet, 'drain' | 'undrain'>
  readonly tasks: { drain(isLast?: boolean): Promise<void>; resume(): void }
  /** The port for applications. */
  readonly door: { move(mostMs: number): Promise<void>; stay(): void }
  /** Whether its ports are open. */
  readonly isServing: () => boolean
  readonly unreadyMs: number
  readonly drainMs: number
  readonly clock: Clock
  readonly log: Log
}

/** How long a drain takes at most, until nothing runs and no client is left. */
export function longestDrainMs({ unreadyMs, drainMs }: Pick<Config, 'unreadyMs' | 'drainMs'>): number {
  return Math.max(unreadyMs + MOVE_MS, drainMs)
}

/** How long a stop takes at most: a drain, then the end of all parts. */
export function longestStopMs({
  stopMs,
  ...drain
}: Pick<Config, 'unreadyMs' | 'drainMs' | 'stopMs'>): number {
  return longestDrainMs(drain) + stopMs
}

export function createDraining(deps: Deps): Draining {
  const { readiness, fleet, tasks, door, isServing, unreadyMs, drainMs, clock, log } = deps
  let under: { readonly done: Promise<void>; readonly undone: AbortController } | undefined
  let isEnding = false
  const moveClients = async (signal: AbortSignal) => {
    if (isServing()) await clock.sleep(unreadyMs, signal)
    await door.move(drainMs - unreadyMs)
  }
  const run = async (signal: AbortSignal) => {
    const sinceMs = clock.monotonicMs()
    log.info('drains')
    readiness.drain()
    await Promise.allSettled([fleet.drain(), tasks.drain(), moveClients(signal)])
    if (!signal.aborted) log.info('drained', { duration_ms: Math.round(clock.monotonicMs() - sinceMs) })
  }
  const begin = () => {
    if (under) return under.done
    const undone = new AbortController()
    under = { done: run(undone.signal), undone }
    return under.done
  }
  return {
    begin: () => void begin(),
    undo: () => {
      if (isEnding || !under) return
      under.undone.abort()
      under = undefined
      readiness.undrain()
      door.stay()
      tasks.resume()
      fleet.undrain()
      log.info('takes new work again')
    },
    end: async () => {
      isEnding = true
      await Promise.all([begin(), tasks.drain(true)])
    },
  }
}
