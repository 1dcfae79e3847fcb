// Schemas of downstreams in answers.
import { z } from 'zod'

const shareSchema = z.object({
  pod: z.string(),
  share: z
    .int()
    .nullable()
    .describe('how much it may have in flight; null: nothing is learnt yet, or it has just come'),
  inFlight: z.number().describe('of the last second, the mean'),
  want: z.number().describe('what it holds and waits for, smoothed'),
})

export const downstreamsSchema = z.object({
  downstreams: z.array(
    z.object({
      key: z.string(),
      capacity: z
        .int()
        .nullable()
        .describe('how much may be in flight, over all pods; null until something was refused, or slow'),
      inFlight: z.number(),
      want: z.number(),
      pausedUntil: z.string().nullable().describe('nobody sends before'),
      ageMs: z.number().nullable().describe('since shares were published'),
      pods: z.array(shareSchema).describe('those that use it'),
    }),
  ),
})
