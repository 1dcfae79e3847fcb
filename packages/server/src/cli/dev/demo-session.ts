// The session that every dev fleet has, made at its first start; without it the fleet is as good as any.
import { Retry } from '../../errors.ts'
import { sessionSchema } from '../../gateway/session-schemas.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { createApi } from '../api.ts'
import { eventOf, type OnEvent } from './events.ts'

export type DemoSession = Service & {
  /** Whether it was made, or could not be. */
  isTried(): boolean
}
type Deps = {
  readonly alias: string
  readonly origin: () => string
  readonly clock: Clock
  readonly onEvent: OnEvent
}

const [TRIES, AGAIN_MS] = [5, 200] // its alias makes a repeat harmless

export function createDemoSession({ alias, origin, clock, onEvent }: Deps): DemoSession {
  let isTried = false
  const make = async () => {
    const body = { alias, agent: 'demo', title: 'Demo' }
    const asked = { method: 'POST', path: '/sessions', body, answer: sessionSchema } as const
    const api = createApi(origin(), clock)
    for (let left = TRIES; ; left -= 1) {
      try {
        return await api.ask(asked)
      } catch (error) {
        if (left === 1 || !(error instanceof Retry)) throw error
        await clock.sleep(AGAIN_MS)
      }
    }
  }
  const onRefused = ({ message: reason }: Error) =>
    onEvent(eventOf('fleet', 'the demo session was not made', { now: clock.now(), level: 'warn', reason }))
  return {
    name: 'demo session',
    isTried: () => isTried,
    start: async () => {
      await make().catch(onRefused)
      isTried = true
    },
    stop: async () => undefined,
  }
}
