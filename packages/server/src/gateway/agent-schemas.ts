// Schemas of agents in requests and answers. Names, URLs and secrets are validated where an agent is added.
import { TASK_NAME } from '@fleetline/protocol'
import { z } from 'zod'

export const agentName = z.string().regex(TASK_NAME, 'is no name of an agent')

export const agentParams = z.object({ agent: z.string() })

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
})

export const agentSchema = z.object({
  name: z.string(),
  url: z.string(),
  downstream: z.string().describe('the downstream whose permits its calls need'),
  createdAt: z.string(),
})

export const addedSchema = z.object({
  ...agentSchema.shape,
  secret: z.string().optional().describe('verifies the signatures; shown only in this response'),
})

export const agentsSchema = z.object({ agents: z.array(agentSchema) })
