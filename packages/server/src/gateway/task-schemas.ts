// Schemas of tasks in requests and answers. Names, numbers and sizes are validated where a task is made.
import { STEP_STATES, TASK_STATES } from '@fleetline/protocol'
import { z } from 'zod'
import { limit } from './query.ts'

export const taskParams = z.object({ task: z.string() })

export const newTaskSchema = z.strictObject({
  machine: z.string(),
  input: z.unknown().optional(),
  queue: z.string().optional(),
  priority: z.int().optional().describe('7 goes first, 0 last'),
  runAt: z.iso.datetime({ offset: true }).optional().describe('the task does not start before this time'),
  maxAttempts: z.int().optional(),
  id: z
    .string()
    .optional()
    .describe(
      'tsk_, the cell (0000) and a UUIDv7 without dashes; a task that is enqueued again with the same id exists once',
    ),
})

export const retryQuery = z.object({
  from: z
    .string()
    .optional()
    .describe('the transition to resume at; what was recorded from there on is deleted'),
})

export const enqueuedSchema = z.object({
  id: z.string(),
  created: z.boolean().describe('false if the task existed already'),
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
  transition: z.string().nullable().describe('the transition that is next'),
  priority: z.int(),
  attempt: z.int().describe('how often a pod has claimed it'),
  spent: z.int().describe('how many of these attempts count towards maxAttempts'),
  maxAttempts: z.int().nullable(),
  pod: z.int().nullable(),
  createdAt: z.string(),
  runAt: z.string().nullable(),
  claimedAt: z.string().nullable(),
  endedAt: z.string().nullable(),
  code: z.string().nullable().describe('the code of its last error'),
})

const stepSchema = z.object({
  name: z.string(),
  state: z.enum(STEP_STATES),
  at: z.string().nullable().describe('when it was recorded'),
  attempt: z.int().nullable().describe('the attempt that recorded it'),
  ms: z.number().nullable().describe('how long its body ran'),
  value: z.unknown().describe('its output'),
})

export const taskSchema = z.object({
  ...summarySchema.shape,
  shape: z.string().describe('a digest of the names of its transitions'),
  timeline: z.array(stepSchema),
  input: z.unknown(),
  result: z.unknown(),
  via: z.enum(['handoff']).nullable().describe('how it was completed, if not by its last transition'),
  error: z.unknown(),
})

export const tasksSchema = z.object({
  tasks: z.array(summarySchema),
  next: z.string().nullable().describe('the `before` of the next page; null if there are no more tasks'),
})
