// Takes a pod out of work without cutting anything off: before it stops, or because an operator has asked for it.
//   at once             it is not ready, claims nothing and gives up its term; its ports stay open
//   after `unreadyMs`   load balancers have seen that. Its clients are asked to go to other pods, spread over up to ten seconds
//   until `drainMs`     what runs may end by itself; then it is handed back, and its attempt does not count
// It is done as soon as nothing runs and no client is left.
import type { Fleet } from '../fleet/fleet.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../telemetry/log.ts'
import type { Readiness } from './readiness.ts'

export type Draining = {
  /** Resolves when it is done, or taken back. */
  readonly begin: () => Promise<void>
  /** The pod takes new work again. */
  readonly undo: () => void
}
type Deps = {
  readonly readiness: Pick<Readiness, 'drain' | 'undrain'>
  readonly fleet: Pick<Fleet, 'drain' | 'undrain'>
  readonly tasks: { drain(): Promise<void>; resume(): void }
  /** The port for applications. */
  readonly door: { move(): Promise<void>; stay(): void }
  /** Whether its ports are open. */
  readonly isServing: () => boolean
  readonly unreadyMs: number
  readonly clock: Clock
  readonly log: Log
}

export function createDraining(deps: Deps): Draining {
  const { readiness, fleet, tasks, door, isServing, unreadyMs, clock, log } = deps
  let under: { readonly done: Promise<void>; readonly undone: AbortController } | undefined
  const moveClients = async (signal: AbortSignal) => {
    if (!isServing()) return
    await clock.sleep(unreadyMs, signal)
    await door.move()
  }
  const run = async (signal: AbortSignal) => {
    const sinceMs = clock.monotonicMs()
    readiness.drain()
    await Promise.allSettled([fleet.drain(), tasks.drain(), moveClients(signal)])
    if (!signal.aborted) log.info('drained', { duration_ms: Math.round(clock.monotonicMs() - sinceMs) })
  }
  return {
    begin: () => {
      if (!under) {
        const undone = new AbortController()
        under = { done: run(undone.signal), undone }
      }
      return under.done
    },
    undo: () => {
      under?.undone.abort()
      under = undefined
      readiness.undrain()
      door.stay()
      tasks.resume()
      void fleet.undrain()
      log.info('takes new work again')
    },
  }
}
