// The agents that answer in sessions: first those in this pod's code, then those of the tenant's directory. The directory is
// read for every attempt. If only other pods have the agent in their code, the turn waits for those. A name that a live pod
// has in its code cannot be added to the directory, because it would never be called there. If an agent is deployed in code
// later, it takes precedence over the directory.
import type { Transactions } from '../store/database.ts'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Hosts } from '../lib/hosts.ts'
import type { Random } from '../lib/random.ts'
import type { Audit } from '../identity/audit.ts'
import type { AgentDefinition, DefinedAgents } from './agent.ts'
import { createDirectory, type AgentDirectory } from './directory.ts'
import { createGuard } from './guard.ts'
import { findInCode } from './in-code.ts'
import { keyOfAgent, mayName } from '../throttle/definition.ts'
import { createWebhooks } from './webhook.ts'

export type Agents = Pick<AgentDirectory, 'add' | 'list' | 'find' | 'change' | 'remove'> & {
  /** Whether a session may be created with it. */
  has(tenant: number, name: string): Promise<boolean>
  /** The agent to call, with the downstream whose permits it needs. */
  agentFor(tenant: number, name: string): Promise<Callable | undefined>
}

export type Callable = AgentDefinition & { readonly downstream: string }

type Deps = {
  readonly defined: DefinedAgents
  readonly database: Transactions
  readonly audit: Pick<Audit, 'record'>
  readonly clock: Clock
  readonly random: Random
  readonly secretsKey: Uint8Array | null
  readonly version: string
  /** Hosts that may be called although they are not public. */
  readonly agentHosts: Hosts
  /** Whether agents behind URLs may share this downstream. */
  readonly isOpen: (key: string) => boolean
}

export function createAgents({ defined, agentHosts, ...deps }: Deps): Agents {
  const guard = createGuard({ open: agentHosts, clock: deps.clock })
  const directory = createDirectory({ ...deps, guard })
  const webhooks = createWebhooks({ ...deps, guard })
  return {
    ...directory,
    add: async (tenant, wanted, actor) => {
      if (defined.has(wanted.name) || (await findInCode(deps.database, wanted.name)) === 'live')
        throw new Rejected(
          'conflict',
          `The pods have an agent ${wanted.name} in their code: choose another name`,
        )
      return directory.add(tenant, wanted, actor)
    },
    has: async (tenant, name) =>
      defined.has(name) ||
      (await directory.find(tenant, name)) !== undefined ||
      (await findInCode(deps.database, name)) !== 'never',
    agentFor: async (tenant, name) => {
      const known = defined.get(name)
      if (known) return { downstream: keyOfAgent(tenant, name), ...known }
      const located = await directory.locate(tenant, name)
      if (!located) return undefined
      const isAllowed = mayName(tenant, located.downstream, deps.isOpen) // it may have been closed to agents since
      return {
        ...webhooks.agentAt(located),
        downstream: isAllowed ? located.downstream : keyOfAgent(tenant, name),
      }
    },
  }
}
