// Schemas of machines in answers.
import { z } from 'zod'

const transitionSchema = z.object({
  name: z.string(),
  ready: z.int(),
  waiting: z.int(),
  claimed: z.int(),
  held: z.int(),
  dead: z.int(),
  reasons: z.array(z.string()).describe('why some are held: hold, shape'),
  oldestMs: z.number().describe('age of the oldest of them'),
})

export const machinesSchema = z.object({
  machines: z.array(
    z.object({
      queue: z.string(),
      machine: z.string(),
      shape: z
        .string()
        .describe('a digest of the names of its transitions; empty for a task with one handler'),
      pods: z.int().describe('how many live pods run this shape'),
      estimated: z
        .boolean()
        .describe(
          'some of the numbers below are estimates from a sample, because there are too many tasks to count',
        ),
      transitions: z.array(transitionSchema),
    }),
  ),
})
