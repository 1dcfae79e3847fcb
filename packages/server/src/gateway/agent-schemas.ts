// Schemas of agents in requests and answers. Names, URLs and secrets are validated where an agent is added.
import { TASK_NAME } from '@fleetline/protocol'
import { z } from 'zod'
import { PROTOCOLS } from '../agent/settings.ts'

export const agentName = z.string().regex(TASK_NAME, 'is no name of an agent')

export const agentParams = z.object({ agent: z.string() })

const windowFields = {
  messages: z.int().describe('the most messages, from 1 to 500'),
  bytes: z.int().describe('the most bytes of JSON, from 1024 to 2097152'),
}
const window = z
  .strictObject(windowFields)
  .partial()
  .optional()
  .describe('how much of the conversation the agent is sent: its last messages')

const protocol = z
  .enum(PROTOCOLS)
  .describe(
    'what the agent is sent, and answers with: requests and chunks of the AI SDK, or inputs and events of AG-UI',
  )

const compactionFields = {
  enabled: z.boolean().describe('whether conversations that have become long are summarised'),
  tokenBudget: z
    .int()
    .describe(
      'the size to which compaction keeps a conversation, in estimated tokens; a target, not a limit; 1000 to 10000000',
    ),
  triggerRatio: z
    .number()
    .describe('a conversation is summarised when it reaches this part of the token budget; 0.1 to 1'),
  url: z.string().nullable().describe('where the agent is asked for a summary; null: at its own URL'),
}
const compaction = z.strictObject(compactionFields).partial().optional()

export const newAgentSchema = z.strictObject({
  name: z.string(),
  url: z.string().describe('the URL that is called, with POST'),
  secret: z.string().optional().describe('whsec_ and base64; Fleetline creates one if you give none'),
  downstream: z
    .string()
    .optional()
    .describe(
      'the downstream whose limit it shares; the code of the pods must have opened that key to agents. Without it, the agent has a limit of its own',
    ),
  protocol: protocol.optional(),
  window,
  compaction,
})

export const agentChangeSchema = z
  .strictObject({
    url: z.string().optional(),
    secret: z.string().optional().describe('signs the calls from now on'),
    downstream: z.string().nullable().optional().describe('null: a limit of its own'),
    protocol: protocol.optional(),
    window,
    compaction,
  })
  .refine((change) => Object.values(change).some((value) => value !== undefined), 'changes nothing')

export const agentSchema = z.object({
  name: z.string(),
  url: z.string(),
  downstream: z.string().describe('the downstream whose permits its calls need'),
  protocol,
  window: z.object(windowFields),
  compaction: z.object(compactionFields),
  createdAt: z.string(),
})

export const addedSchema = z.object({
  ...agentSchema.shape,
  secret: z.string().optional().describe('verifies the signatures; shown only in this response'),
})

export const agentsSchema = z.object({ agents: z.array(agentSchema) })
