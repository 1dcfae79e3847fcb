// Sets up the agent to talk to in a dev fleet. Adds it, if it is behind a URL, makes a session with it, whose alias is the agent's name, and
// makes it the agent of sessions that users create. The built-in agent always has its session. They are made at the first start. If that
// fails, the fleet still runs.
import type { z } from 'zod'
import type { Protocol } from '../../agent/settings.ts'
import { Rejected, Retry } from '../../errors.ts'
import { addedSchema, agentParams } from '../../gateway/agent-schemas.ts'
import { sessionSchema } from '../../gateway/session-schemas.ts'
import { ownTenantSchema } from '../../gateway/tenant-schemas.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { createApi } from '../api.ts'
import { DEMO, type Answerer } from './answerer.ts'
import { eventOf, type OnEvent } from './events.ts'
import { DEV_USER } from './person.ts'

type Talk = Service & {
  /** Whether making the sessions has succeeded or failed. */
  isTried(): boolean
}
type Deps = {
  readonly answerer: Answerer
  readonly origin: () => string
  readonly clock: Clock
  readonly onEvent: OnEvent
}

const [TRIES, AGAIN_MS] = [5, 200] // all of these requests can be repeated

export function createTalk({ answerer, origin, clock, onEvent }: Deps): Talk {
  let isTried = false
  const start = async () => {
    const ask = askerOf(origin(), clock)
    for (const { name, title, located } of new Set([DEMO, answerer])) {
      if (located) await place(ask, { name, ...located() })
      await ask('POST', '/sessions', sessionSchema, {
        alias: name,
        agent: name,
        title,
        members: [DEV_USER],
      })
    }
    const { defaultAgent } = await ask('GET', '/tenant', ownTenantSchema)
    if (defaultAgent === null || defaultAgent === DEMO.name)
      await ask('PATCH', '/tenant', ownTenantSchema, { defaultAgent: answerer.name })
  }
  const onRefused = ({ message: reason }: Error) =>
    onEvent(eventOf('fleet', 'the session was not made', { now: clock.now(), level: 'warn', reason }))
  return {
    name: 'talk',
    isTried: () => isTried,
    start: async () => {
      await start().catch(onRefused)
      isTried = true
    },
    stop: async () => undefined,
  }
}

export type Ask = <T>(
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  answer: z.ZodType<T>,
  body?: unknown,
) => Promise<T>

export function askerOf(origin: string, clock: Clock): Ask {
  const api = createApi(origin, clock)
  return async (method, path, answer, body) => {
    for (let left = TRIES; ; left -= 1) {
      try {
        return await api.ask({ method, path, answer, body })
      } catch (error) {
        if (left === 1 || !(error instanceof Retry)) throw error
        await clock.sleep(AGAIN_MS)
      }
    }
  }
}

/** Adds the agent. Replaces one with another URL, if necessary. */
async function place(
  ask: Ask,
  agent: { name: string; url: string; secret: string; protocol?: Protocol },
): Promise<void> {
  try {
    await ask('POST', '/agents', addedSchema, agent)
  } catch (error) {
    if (!(error instanceof Rejected) || error.code !== 'conflict') throw error
    await ask('DELETE', `/agents/${agent.name}`, agentParams).catch(unlessGone)
    await ask('POST', '/agents', addedSchema, agent)
  }
}

function unlessGone(error: unknown): void {
  if (!(error instanceof Rejected) || error.code !== 'not_found') throw error
}
