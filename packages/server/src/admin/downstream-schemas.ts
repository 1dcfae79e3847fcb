// Schemas of downstreams in answers.
import { z } from 'zod'

const shareSchema = z.object({
  pod: z.string(),
  share: z
    .int()
    .nullable()
    .describe('how many calls it may have in flight; null if nothing is learnt yet, or the pod is new'),
  inFlight: z.number().describe('calls in flight, the mean of the last second'),
  want: z.number().describe('calls in flight and waiting, smoothed'),
})

export const downstreamsSchema = z.object({
  downstreams: z.array(
    z.object({
      key: z.string(),
      capacity: z
        .int()
        .nullable()
        .describe(
          'how many calls all pods together may have in flight; null until the provider has rejected a call or slowed down',
        ),
      inFlight: z.number(),
      want: z.number(),
      pausedUntil: z.string().nullable().describe('no pod sends before this time'),
      ageMs: z.number().nullable().describe('time since the shares were published'),
      pods: z.array(shareSchema).describe('the pods that use it'),
    }),
  ),
})
