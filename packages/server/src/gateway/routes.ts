// All routes of the port for applications.
import type { Agents } from '../agent/agents.ts'
import { withOpenapi } from '../door/openapi.ts'
import { route, type Route } from '../door/route.ts'
import type { SocketRoute } from '../door/socket-route.ts'
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
import type { Log } from '../telemetry/log.ts'
import { agentRoutes } from './agent-routes.ts'
import { agUiRoutes } from './ag-ui/route.ts'
import { createChatOperations } from './chat/chat-operations.ts'
import { chatRoutes } from './chat/chat-routes.ts'
import { chatSocket } from './chat/chat-socket.ts'
import { createReplyStreams } from './chat/reply-streams.ts'
import { erasureRoutes } from './erasure-routes.ts'
import { exportRoutes } from './export-routes.ts'
import { inboxRoutes } from './inbox-routes.ts'
import { memberRoutes } from './member-routes.ts'
import { messageRoutes } from './message-routes.ts'
import { createOperations } from './operations.ts'
import { createSessionKeys } from './session-key.ts'
import { sessionSocket } from './socket/route.ts'
import { rewriteRoutes } from './rewrite-routes.ts'
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
  readonly log: Log
  readonly cell: number
  readonly chatBodyLimitBytes: number
}

const access = { audience: 'probe', tenant: 'none' } as const // the same for every fleet of a release

/** Answers requests for the socket that are no handshake. */
const needsUpgrade = route({
  method: 'GET',
  path: '/v1/socket',
  summary:
    'Opens a socket that follows sessions and an inbox, and sends messages. It needs a WebSocket handshake with the subprotocol `fleetline.v1`. The page docs/reference/socket.md describes its frames.',
  access,
  answers: { 426: { means: 'The request is no WebSocket handshake.', text: 'text/plain; charset=utf-8' } },
  handle: () => ({
    status: 426,
    body: 'This address takes WebSocket connections: connect to it with the subprotocol fleetline.v1\n',
  }),
})

const chatNeedsUpgrade = route({
  method: 'GET',
  path: '/v1/chat/socket',
  summary:
    'Opens a socket for the WebSocketChatTransport of the AI SDK. It needs a WebSocket handshake. Each frame may carry a token in `headers.authorization`.',
  access,
  answers: { 426: { means: 'The request is no WebSocket handshake.', text: 'text/plain; charset=utf-8' } },
  handle: () => ({ status: 426, body: 'This address takes WebSocket connections\n' }),
})

export type GatewayTables = { readonly routes: Route[]; readonly sockets: SocketRoute[] }

export function gatewayRoutes({ version, chatBodyLimitBytes, ...deps }: Deps): GatewayTables {
  const found = { ...deps, ...createSessionKeys(deps) }
  const keyed = { ...found, operations: createOperations(found) }
  const chats = createChatOperations({ ...keyed, replies: createReplyStreams(keyed) })
  const ofSessions = [
    ...sessionRoutes(keyed),
    ...inboxRoutes(keyed),
    ...memberRoutes(keyed),
    ...messageRoutes(keyed),
    ...agUiRoutes(keyed),
    ...rewriteRoutes(keyed),
    ...chatRoutes({ chats, chatBodyLimitBytes }),
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
  const all = withOpenapi([...routes, needsUpgrade, chatNeedsUpgrade], {
    title: 'Fleetline, for applications',
    version,
    access,
  })
  return { routes: all, sockets: [sessionSocket(keyed), chatSocket({ ...keyed, chats, chatBodyLimitBytes })] }
}
