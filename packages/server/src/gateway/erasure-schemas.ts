// Schemas of erasures and of retention in requests and answers.
import { ERASURE_KINDS, ERASURE_STATES } from '@fleetline/protocol'
import { z } from 'zod'
import { RETENTION_LIMITS } from '../erasure/retention-limits.ts'
import { agentName } from './agent-schemas.ts'
import { limit, whole } from './query.ts'
import { sessionParams, userId } from './session-schemas.ts'

export const messageParams = sessionParams.extend({ message: z.string() })
export const userParams = z.object({ user: userId })
export const erasureParams = z.object({ erasure: z.string() })
export const erasuresQuery = z.object({ before: z.string().optional(), limit })

export const erasureSchema = z.object({
  erasure: z.string(),
  kind: z.enum(ERASURE_KINDS),
  session: z.string().nullable(),
  seq: z.int().nullable(),
  state: z.enum(ERASURE_STATES),
  requestedAt: z.string(),
  doneAt: z.string().nullable(),
  erased: z.object({
    sessions: z.int(),
    messages: z
      .int()
      .describe('messages that were erased one by one; messages of erased sessions are not counted'),
    memberships: z.int(),
  }),
  remains: z.array(z.object({ what: z.string(), where: z.string(), until: z.string().nullable() })),
})
export const erasuresSchema = z.object({ erasures: z.array(erasureSchema) })

const agent = agentName
  .optional()
  .describe(
    'the agent of the sessions; without one, all sessions that have no agent, or whose agent has no rule',
  )

export const ruleSchema = z.object({
  agent,
  keepDays: z
    .int()
    .min(1)
    .max(RETENTION_LIMITS.days)
    .nullable()
    .describe('how many days after its last message or failed reply a session is erased; null: no rule'),
})
export const rulesSchema = z.object({
  keepDays: z.int().nullable(),
  agents: z.array(z.object({ agent: z.string(), keepDays: z.int() })),
})
const isAgentKnown = z
  .boolean()
  .optional()
  .describe(
    'only with an agent and days. False: no agent has this name now. The rule then is for sessions whose agent was removed, or the name is wrong',
  )
export const changedRulesSchema = rulesSchema.extend({ isAgentKnown })
export const previewQuery = z
  .object({
    agent,
    keepDays: whole(1, RETENTION_LIMITS.days)
      .optional()
      .describe('as if this rule replaced the current one of its agent; without it, by the stored rules'),
  })
  .refine((query) => query.agent === undefined || query.keepDays !== undefined, 'agent needs keepDays')
export const previewSchema = z.object({
  sessions: z.int(),
  messages: z.int(),
  from: z.string().nullable().describe('the earliest last message or failed reply of these sessions'),
  to: z.string().nullable().describe('the latest last message or failed reply of these sessions'),
  isComplete: z
    .boolean()
    .describe(
      'false: a preview reads only the 200,000 oldest sessions, and there may be more; then the numbers may be too low',
    ),
  isAgentKnown,
})
