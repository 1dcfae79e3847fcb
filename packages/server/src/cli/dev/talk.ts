// Whom one talks to in a dev fleet: the built-in agent, or yours behind its URL, and a session with it, whose alias is the
// agent's name. Made at the first start; without them the fleet is as good as any. The secret of your agent stays the same
// from start to start, in a file for your eyes.
import type { z } from 'zod'
import { newSecret } from '../../agent/signature.ts'
import { Rejected, Retry } from '../../errors.ts'
import { addedSchema, agentParams } from '../../gateway/agent-schemas.ts'
import { sessionSchema } from '../../gateway/session-schemas.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Random } from '../../lib/random.ts'
import { createApi } from '../api.ts'
import { eventOf, type OnEvent } from './events.ts'
import { shortPath, type Folder } from './folder.ts'

export type Talk = Service & {
  /** The alias of the session. */
  readonly session: string
  /** Of the agent, and what to know about it. */
  readonly describe: () => readonly [agent: string, hint: string]
  /** Whether the session was made, or could not be. */
  isTried(): boolean
}
type Deps = {
  /** Of your agent, if you have one. */
  readonly agentUrl: string | undefined
  readonly folder: Folder
  readonly origin: () => string
  readonly clock: Clock
  readonly random: Random
  readonly onEvent: OnEvent
}

export const DEMO = 'demo'
const LOCAL = 'local'
const SECRET_FILE = 'agent-secret'
const [TRIES, AGAIN_MS] = [5, 200] // a repeat of any of it is harmless

export function createTalk({ agentUrl, folder, origin, clock, random, onEvent }: Deps): Talk {
  const agent = agentUrl === undefined ? DEMO : LOCAL
  const secret = () => folder.secret(SECRET_FILE, () => newSecret(random))
  let isTried = false
  const start = async () => {
    const ask = askerOf(origin(), clock)
    if (agentUrl !== undefined) await place(ask, { name: agent, url: agentUrl, secret: secret() })
    const body = { alias: agent, agent, title: agent === DEMO ? 'Demo' : 'Your agent' }
    await ask('POST', '/sessions', sessionSchema, body)
  }
  const onRefused = ({ message: reason }: Error) =>
    onEvent(eventOf('fleet', 'the session was not made', { now: clock.now(), level: 'warn', reason }))
  return {
    name: 'talk',
    session: agent,
    describe: () => {
      if (agentUrl === undefined)
        return ['demo, built in', 'knows long, slow, fail and think; says anything else again']
      secret() // it is there when people look for it
      return [`${LOCAL}, at ${agentUrl}`, `signed with the secret in ${shortPath(folder.at(SECRET_FILE))}`]
    },
    isTried: () => isTried,
    start: async () => {
      await start().catch(onRefused)
      isTried = true
    },
    stop: async () => undefined,
  }
}

type Ask = <T>(method: 'POST' | 'DELETE', path: string, answer: z.ZodType<T>, body?: unknown) => Promise<T>

function askerOf(origin: string, clock: Clock): Ask {
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

/** In place of one with another URL, if need be. */
async function place(ask: Ask, agent: { name: string; url: string; secret: string }): Promise<void> {
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
