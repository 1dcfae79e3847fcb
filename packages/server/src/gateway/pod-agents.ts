// Agents behind URLs for a program that has the pod in its own process.
import type { Agents } from '../agent/agents.ts'
import type { Added, AgentChange, AgentEntry, NewAgent } from '../agent/directory.ts'
import { POD } from '../identity/actor.ts'
import type { RouteCaller } from './in-process.ts'

export type PodAgents = {
  /** Only this answer contains the agent's secret. Adding the same agent again stores nothing twice. */
  addAgent(agent: NewAgent): Promise<Added>
  listAgents(): Promise<readonly AgentEntry[]>
  /** Holds from the next call of the agent on. What is left out stays. Undefined if there is no such agent. */
  changeAgent(name: string, change: AgentChange): Promise<AgentEntry | undefined>
  /** Resolves to false if there was no such agent. */
  removeAgent(name: string): Promise<boolean>
  /** Names the agent that answers in sessions which users create; null for none. */
  setDefaultAgent(name: string | null): Promise<void>
}

type Deps = {
  readonly agents: Agents
  readonly call: RouteCaller
  readonly ownTenant: () => Promise<number>
}

export function createPodAgents({ agents, call, ownTenant }: Deps): PodAgents {
  return {
    addAgent: async (agent) => agents.add(await ownTenant(), agent, POD),
    listAgents: async () => agents.list(await ownTenant()),
    changeAgent: async (name, change) => agents.change(await ownTenant(), name, change, POD),
    removeAgent: async (name) => agents.remove(await ownTenant(), name, POD),
    setDefaultAgent: async (defaultAgent) =>
      void (await call('PATCH /v1/tenant', { body: { defaultAgent } })),
  }
}
