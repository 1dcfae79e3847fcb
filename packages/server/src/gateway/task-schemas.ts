// Schemas of tasks in requests and answers. Names, numbers and sizes are validated where a task is made.
import { STEP_STATES, TASK_STATES } from '@fleetline/protocol'
import { z } from 'zod'
import { limit } from './query.ts'

export const taskParams = z.object({ task: z.string() })

export const newTaskSchema = z.strictObject({
  machine: z.string(),
  input: z.unknown().optional(),
  queue: z.string().optional(),
  priority: z.int().optional().describe('7 first, 0 last'),
  runAt: z.iso.datetime({ offset: true }).optional().describe('not before this'),
  maxAttempts: z.int().optional(),
  id: z
    .string()
    .optional()
    .describe(
      'tsk_, the cell (0000) and a UUIDv7 without dashes; enqueued again under its id, a task is there once',
    ),
})

export const retryQuery = z.object({
  from: z
    .string()
    .optional()
    .describe('a transition that it has come to; what is recorded from there on is forgotten'),
})

export const enqueuedSchema = z.object({
  id: z.string(),
  created: z.boolean().describe('false for a task that was there already'),
})

export const tasksQuery = z.object({
  state: z.enum(TASK_STATES).optional(),
  queue: z.string().optional(),
  machine: z.string().optional(),
  before: z.string().optional(),
  limit,
})

const summarySchema = z.object({
  id: z.string(),
  queue: z.string(),
  machine: z.string(),
  state: z.enum(TASK_STATES),
  reason: z.string().nullable(),
  transition: z.string().nullable().describe('where it stands in its machine'),
  priority: z.int(),
  attempt: z.int().describe('how often it was claimed'),
  spent: z.int().describe('how many of these count against maxAttempts'),
  maxAttempts: z.int().nullable(),
  pod: z.int().nullable(),
  createdAt: z.string(),
  runAt: z.string().nullable(),
  claimedAt: z.string().nullable(),
  endedAt: z.string().nullable(),
  code: z.string().nullable().describe('of its last error'),
})

const stepSchema = z.object({
  name: z.string(),
  state: z.enum(STEP_STATES),
  at: z.string().nullable().describe('when it was recorded'),
  attempt: z.int().nullable().describe('by which attempt'),
  ms: z.number().nullable().describe('how long its body ran'),
  value: z.unknown().describe('what it gave'),
})

export const taskSchema = z.object({
  ...summarySchema.shape,
  shape: z.string().describe('short for the names of the transitions of its machine'),
  timeline: z.array(stepSchema),
  input: z.unknown(),
  result: z.unknown(),
  via: z.enum(['handoff']).nullable().describe('how it came to be done, if not by its end'),
  error: z.unknown(),
})

export const tasksSchema = z.object({
  tasks: z.array(summarySchema),
  next: z.string().nullable().describe('where to go on, as `before`; null if there are no more'),
})
