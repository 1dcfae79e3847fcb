// The chats of a pod without its ports, so that a test can do something between two transactions of a request.
import type { TestContext } from 'node:test'
import { loadConfig } from '../../src/config.ts'
import { createChatOperations, type ChatOperations } from '../../src/gateway/chat/chat-operations.ts'
import { createReplyStreams } from '../../src/gateway/chat/reply-streams.ts'
import { createOperations } from '../../src/gateway/operations.ts'
import { createSessionKeys } from '../../src/gateway/session-key.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { systemRandom } from '../../src/lib/random.ts'
import { createSessions } from '../../src/session/sessions.ts'
import type { Transactions } from '../../src/store/database.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { atEnd } from './cleanup.ts'
import { silentLog } from './log.ts'
import { openDatabase } from './store.ts'

type Options = {
  readonly url: string
  /** The agent of new chats. */
  readonly agent: string
  /** Called before each transaction. */
  readonly before: () => Promise<void>
}

export async function chatsOn(t: TestContext, { url, agent, before }: Options): Promise<ChatOperations> {
  const real = await openDatabase(t, url)
  const database: Transactions = {
    transaction: async (work, how) => {
      await before()
      return real.transaction(work, how)
    },
  }
  const ignored = () => undefined
  const deps = {
    ...loadConfig({ environment: {}, flags: { transactionDeadlineMs: '120000' } }),
    database,
    hints: { listen: () => ignored, send: ignored },
    clock: systemClock(),
    random: systemRandom(),
    metrics: createMetrics(),
    log: silentLog(),
    onTurns: ignored,
    onMoved: ignored,
    onRead: ignored,
    onMembershipChanged: ignored,
  }
  const sessions = createSessions(deps)
  atEnd(t, () => sessions.stop())
  const found = {
    ...deps,
    sessions,
    rateLimits: { countAppend: ignored },
    tenants: { defaultAgent: async () => agent },
    agents: { has: async () => true },
    inbox: { follow: () => Promise.reject(new Error('There is no inbox')) },
    ...createSessionKeys({ sessions, cell: 0 }),
  }
  const keyed = { ...found, operations: createOperations(found) }
  return createChatOperations({ ...keyed, replies: createReplyStreams(keyed) })
}
