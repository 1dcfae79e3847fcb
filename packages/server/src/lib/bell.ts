// Wakes a loop early. If the bell rings while nobody waits, the next wait ends at once. Several rings count as one, and no
// ring is lost.
import type { Clock } from './clock.ts'

export type Bell = {
  ring(): void
  /** Resolves to true if it was rung, to false if the time has passed. */
  wait(ms: number): Promise<boolean>
}

export function createBell(clock: Pick<Clock, 'sleep'>): Bell {
  let isRung = false
  let waiter: AbortController | undefined
  const RUNG = new Error('rung')
  return {
    ring: () => {
      isRung = true
      waiter?.abort(RUNG)
    },
    wait: async (ms) => {
      if (!isRung) {
        waiter = new AbortController()
        await clock.sleep(ms, waiter.signal).catch(() => undefined) // rung
        waiter = undefined
      }
      const was = isRung
      isRung = false
      return was
    },
  }
}
