// Sets up the agent to talk to in a dev fleet: your agent behind its URL, a model, or the built-in agent. It also makes a
// session with that agent, whose alias is the agent's name, and makes it the agent of sessions that users create. The built-in agent always has its
// session. They are made at the first start. If that fails, the fleet still runs.
import type { z } from 'zod'
import type { Protocol } from '../../agent/settings.ts'
import { newSecret } from '../../agent/signature.ts'
import { Rejected, Retry } from '../../errors.ts'
import { addedSchema, agentParams } from '../../gateway/agent-schemas.ts'
import { sessionSchema } from '../../gateway/session-schemas.ts'
import { ownTenantSchema } from '../../gateway/tenant-schemas.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Random } from '../../lib/random.ts'
import { createApi } from '../api.ts'
import { eventOf, type OnEvent } from './events.ts'
import { AGENT_SECRET, shortPath, type Folder } from './folder.ts'
import { DEV_USER } from './person.ts'

type Talk = Service & {
  /** Whether making the sessions has succeeded or failed. */
  isTried(): boolean
}
/** The agent that answers; its name is also the alias of the session. */
export type Answerer = {
  readonly name: string
  readonly title: string
  /** Undefined for the built-in agent. */
  readonly located?: () => { readonly url: string; readonly secret: string; readonly protocol?: Protocol }
  /** The agent and a hint about it. */
  readonly describe: () => readonly [agent: string, hint: string]
}
type Deps = {
  readonly answerer: Answerer
  readonly origin: () => string
  readonly clock: Clock
  readonly onEvent: OnEvent
}

export const DEMO: Answerer = {
  name: 'demo',
  title: 'Demo',
  describe: () => ['demo, built in', 'knows long, slow, fail and think; says anything else again'],
}
const [TRIES, AGAIN_MS] = [5, 200] // all of these requests can be repeated

/** Its secret stays the same from start to start, in a file that only you can read. */
export function yourAgent(
  { url, protocol = 'ai-sdk' }: { readonly url: string; readonly protocol?: Protocol },
  folder: Folder,
  random: Random,
): Answerer {
  const secret = () => folder.secret(AGENT_SECRET, () => newSecret(random))
  return {
    name: 'local',
    title: 'Your agent',
    located: () => ({ url, secret: secret(), protocol }),
    describe: () => {
      secret() // makes the file before people look for it
      return [
        `local, at ${url} (${protocol})`,
        `signed with the secret in ${shortPath(folder.at(AGENT_SECRET))}`,
      ]
    },
  }
}

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
