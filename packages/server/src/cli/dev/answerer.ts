// Which agent answers in a dev fleet: yours, behind its URL or in the code of your app, a model, or the built-in one.
import type { Protocol } from '../../agent/settings.ts'
import { newSecret } from '../../agent/signature.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Random } from '../../lib/random.ts'
import { eventOf, type OnEvent } from './events.ts'
import { AGENT_SECRET, shortPath, type Folder } from './folder.ts'
import { createModelAgent } from './model-agent.ts'
import type { Model } from './model.ts'

/** Your agent: its URL, or the name under which the app exports it. */
export type AgentWish =
  | { readonly url: string; readonly name?: never }
  | { readonly url?: never; readonly name: string }
/** The agent that answers; its name is also the alias of the session. */
export type Answerer = {
  readonly name: string
  readonly title: string
  /** Undefined for an agent in the code of the pods. */
  readonly located?: () => { readonly url: string; readonly secret: string; readonly protocol?: Protocol }
  /** The agent and a hint about it. */
  readonly describe: () => readonly [agent: string, hint: string]
}
type Answering = { readonly answerer: Answerer; readonly services: readonly Service[] }
type Wish = {
  readonly agent: AgentWish | undefined
  readonly agentProtocol: Protocol | undefined
  readonly model: Model | undefined
  readonly clock: Clock
  readonly folder: Folder
  readonly port: number
  readonly random: Random
  readonly onEvent: OnEvent
}

export const DEMO: Answerer = {
  name: 'demo',
  title: 'Demo',
  describe: () => ['demo, built in', 'knows long, slow, fail and think; says anything else again'],
}

/** The agent that answers, and the services that it needs. */
export function answererFor({
  agent,
  agentProtocol,
  model,
  folder,
  port,
  clock,
  random,
  onEvent,
}: Wish): Answering {
  if (agent?.name !== undefined) return { answerer: inCode(agent.name), services: [] }
  if (agent?.url !== undefined) {
    const asked = { url: agent.url, ...(agentProtocol && { protocol: agentProtocol }) }
    return { answerer: yourAgent(asked, folder, random), services: [] }
  }
  if (model === undefined) return { answerer: DEMO, services: [] }
  const onRefused = (reason: string) =>
    onEvent(eventOf('model', 'did not answer', { now: clock.now(), level: 'warn', reason }))
  const secret = () => folder.secret('model-secret', () => newSecret(random))
  const served = createModelAgent({ model, port, secret, onRefused })
  const answerer: Answerer = {
    name: 'model',
    title: 'A model',
    located: () => ({ url: served.url(), secret: secret() }),
    describe: () => [`model, ${model.name} at ${model.url}`, 'OPENAI_MODEL for another, --no-model for none'],
  }
  return { answerer, services: [served] }
}

/** Its secret stays the same from start to start, in a file that only you can read. */
function yourAgent(
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

/** It is in the pods: there is nothing to add. */
function inCode(name: string): Answerer {
  return { name, title: name, describe: () => [`${name}, in your app`, 'replies in new sessions'] }
}
