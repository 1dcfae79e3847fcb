// Schemas of pods in answers.
import { z } from 'zod'
import type { PodRow } from '../fleet/pods.ts'

const podSchema = z.object({
  pod: z.int().describe('the number of this life of the pod; a restart gets a new one'),
  name: z.string(),
  version: z.string(),
  state: z.enum(['live', 'draining', 'dead']),
  isLeader: z.boolean(),
  bornAt: z.iso.datetime(),
  beatAgeMs: z.int().describe('time since its last beat, by the clock of the database'),
  endedAt: z.iso.datetime().nullable(),
})
export const podsSchema = z.object({ pods: z.array(podSchema) })

export function podOf({ bornAt, endedAt, beatAgeMs, ...rest }: PodRow): z.infer<typeof podSchema> {
  return {
    ...rest,
    bornAt: bornAt.toISOString(),
    beatAgeMs: Math.round(beatAgeMs),
    endedAt: endedAt && endedAt.toISOString(),
  }
}
