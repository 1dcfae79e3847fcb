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
  sockets: z.int().describe('open sockets at its last beat'),
  streams: z.int().describe('open event streams at its last beat'),
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

export const podParams = z.object({ pod: z.string().describe('its number or its name') })
export const drainSchema = z.strictObject({
  dryRun: z.boolean().default(false).describe('only say what would move, and how long it would take at most'),
})
export const drainPlanSchema = z.object({
  pod: z.int(),
  name: z.string(),
  state: z.enum(['live', 'draining']),
  isAsked: z.boolean().describe('whether an operator has asked it to drain'),
  others: z.int().describe('how many other pods are live, and not asked to drain'),
  sockets: z.int().describe('clients that go to other pods'),
  streams: z.int().describe('event streams that go to other pods'),
  turns: z.int().describe('turns that it runs'),
  tasks: z.int().describe('tasks that it runs'),
  endsWithinMs: z
    .int()
    .describe('a drain ends as soon as nothing runs and no client is left, and in this time at the latest'),
})
