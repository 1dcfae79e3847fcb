// Schemas of turns in requests and answers.
import { TURN_STATES } from '@fleetline/protocol'
import { z } from 'zod'

export const seqRangesSchema = z.array(z.tuple([z.int(), z.int()]))
const tokens = z.int().nullable()

export const turnSchema = z.object({
  id: z.string(),
  session: z.string(),
  state: z.enum(TURN_STATES),
  epoch: z.int(),
  attempt: z.int().describe('how often a pod has started it'),
  agent: z.string(),
  message: z.string(),
  answers: z.object({ from: z.int(), to: z.int().nullable() }),
  replaces: seqRangesSchema
    .optional()
    .describe('while a reply is regenerated: the seqs that it will replace'),
  pod: z.string().nullable(),
  startedAt: z.string(),
  retryAt: z.string().nullable(),
  waitsFor: z
    .string()
    .nullable()
    .describe(
      'why it waits: agent_unknown if no live pod has its agent, rate_limited, or the error code of the last attempt',
    ),
  endedAt: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  halted: z.boolean().optional(),
  usage: z
    .array(
      z.object({
        attempt: z.int(),
        model: z.string(),
        outcome: z.enum(['done', 'failed', 'returned', 'stopped', 'fenced', 'lost']),
        inputTokens: tokens,
        outputTokens: tokens,
        cacheReadTokens: tokens,
        cacheWriteTokens: tokens,
        reasoningTokens: tokens,
      }),
    )
    .optional()
    .describe('what its attempts have used, as their agent reports it; not for users'),
})

/** The turn to stop. A newer turn is left alone. */
export const stopSchema = z.object({ turn: z.string(), epoch: z.int().min(1) })
export const stopAckSchema = z.object({ stopped: z.boolean(), seq: z.int().nullable() })
