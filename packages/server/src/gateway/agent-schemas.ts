// Schemas of agents in requests and answers. Names, URLs and secrets are validated where an agent is added.
import { z } from 'zod'

export const agentParams = z.object({ agent: z.string() })

export const newAgentSchema = z.strictObject({
  name: z.string(),
  url: z.string().describe('where it is called, with POST'),
  secret: z.string().optional().describe('whsec_ and base64; one is made if none is given'),
  downstream: z
    .string()
    .optional()
    .describe(
      'what it shares a limit with: a key that the code of the pods has opened to agents; by itself if none is given',
    ),
})

export const agentSchema = z.object({
  name: z.string(),
  url: z.string(),
  downstream: z.string().describe('under whose permits it is called'),
  createdAt: z.string(),
})

export const addedSchema = z.object({
  ...agentSchema.shape,
  secret: z.string().optional().describe('to check the signatures with; in no other answer'),
})

export const agentsSchema = z.object({ agents: z.array(agentSchema) })
