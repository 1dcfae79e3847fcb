// Who answers in sessions: the agents that this pod was given in code, then those of the tenant's directory, which are
// read anew for every attempt. A turn of an agent in the code of other pods waits for those. A name that a live pod has in
// its code is not added to the directory, where it would never be called; one that is deployed in code later takes the
// place of that in the directory.
import type { Transactions } from '../store/database.ts'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Hosts } from '../lib/hosts.ts'
import type { Random } from '../lib/random.ts'
import type { AgentDefinition, DefinedAgents } from './agent.ts'
import { createDirectory, type AgentDirectory } from './directory.ts'
import { createGuard } from './guard.ts'
import { findInCode } from './in-code.ts'
import { keyOfAgent, mayName } from '../throttle/definition.ts'
import { createWebhooks } from './webhook.ts'

export type Agents = Pick<AgentDirectory, 'add' | 'list' | 'find' | 'remove'> & {
  /** Whether a session may be made with it. */
  has(tenant: number, name: string): Promise<boolean>
  /** To be called, under the permits of that downstream. */
  agentFor(tenant: number, name: string): Promise<Callable | undefined>
}

export type Callable = AgentDefinition & { readonly downstream: string }

type Deps = {
  readonly defined: DefinedAgents
  readonly database: Transactions
  readonly clock: Clock
  readonly random: Random
  readonly secretsKey: Uint8Array | null
  readonly version: string
  /** Those that may be called although they are not public. */
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
    add: async (tenant, wanted) => {
      if (defined.has(wanted.name) || (await findInCode(deps.database, wanted.name)) === 'live')
        throw new Rejected(
          'conflict',
          `The pods have an agent ${wanted.name} in their code: choose another name`,
        )
      return directory.add(tenant, wanted)
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
      const isAllowed = mayName(tenant, located.downstream, deps.isOpen) // it may have been closed since
      return {
        ...webhooks.agentAt(located),
        downstream: isAllowed ? located.downstream : keyOfAgent(tenant, name),
      }
    },
  }
}
