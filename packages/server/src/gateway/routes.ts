// All routes of the port for applications.
import type { Agents } from '../agent/agents.ts'
import { withOpenapi } from '../door/openapi.ts'
import type { Route } from '../door/route.ts'
import type { Erasures } from '../erasure/erasures.ts'
import type { Retention } from '../erasure/retention.ts'
import type { Cuts } from '../identity/cuts.ts'
import type { RateLimits } from '../identity/rate-limits.ts'
import type { Tenants } from '../identity/tenants.ts'
import type { Tickets } from '../identity/tickets.ts'
import type { Tokens } from '../identity/tokens.ts'
import type { Inbox } from '../inbox/inbox.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Sessions } from '../session/sessions.ts'
import type { Tasks } from '../task/tasks.ts'
import type { UsageList } from '../usage/list.ts'
import { agentRoutes } from './agent-routes.ts'
import { erasureRoutes } from './erasure-routes.ts'
import { exportRoutes } from './export-routes.ts'
import { inboxRoutes } from './inbox-routes.ts'
import { memberRoutes } from './member-routes.ts'
import { messageRoutes } from './message-routes.ts'
import { createOperations } from './operations.ts'
import { createSessionKeys } from './session-key.ts'
import { retentionRoutes } from './retention-routes.ts'
import { sessionRoutes } from './session-routes.ts'
import { tenantRoutes } from './tenant-routes.ts'
import { taskRoutes } from './task-routes.ts'
import { ticketRoutes } from './ticket-routes.ts'
import { tokenRoutes } from './token-routes.ts'
import { turnRoutes } from './turn-routes.ts'
import { usageRoutes } from './usage-routes.ts'

type Deps = {
  readonly version: string
  readonly sessions: Sessions
  readonly inbox: Inbox
  readonly agents: Agents
  readonly tasks: Tasks
  readonly usage: UsageList
  readonly erasures: Erasures
  readonly retention: Retention
  readonly tokens: Tokens
  readonly tickets: Tickets
  readonly cuts: Cuts
  readonly tenants: Tenants
  readonly rateLimits: RateLimits
  readonly clock: Clock
  readonly random: Random
  readonly cell: number
}

export function gatewayRoutes({ version, ...deps }: Deps): Route[] {
  const found = { ...deps, ...createSessionKeys(deps) }
  const keyed = { ...found, operations: createOperations(found) }
  const ofSessions = [
    ...sessionRoutes(keyed),
    ...inboxRoutes(keyed),
    ...memberRoutes(keyed),
    ...messageRoutes(keyed),
    ...exportRoutes(keyed),
    ...erasureRoutes(keyed),
    ...retentionRoutes(keyed),
  ]
  const others = [
    ...agentRoutes(keyed),
    ...tenantRoutes(keyed),
    ...taskRoutes(keyed),
    ...usageRoutes(keyed),
    ...tokenRoutes(keyed),
    ...ticketRoutes(keyed),
  ]
  const routes = [...ofSessions, ...turnRoutes(keyed), ...others]
  const access = { audience: 'probe', tenant: 'none' } as const // the same for every fleet of a release
  return withOpenapi(routes, { title: 'Fleetline, for applications', version, access })
}
