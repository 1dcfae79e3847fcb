// A wish to be woken. Rung while nobody waits, it wakes the next who does at once: no ring is lost, many are one.
import type { Clock } from './clock.ts'

export type Bell = {
  ring(): void
  /** Whether it was rung, or the time has passed. */
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
