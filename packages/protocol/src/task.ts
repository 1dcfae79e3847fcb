// A task as it is sent over the API.
import type { Id } from './ids.ts'

export const TASK_LIMITS = {
  /** Of the JSON in UTF-8. */
  inputBytes: 262_144,
  resultBytes: 65_536,
  errorBytes: 8_192,
  /** How many tasks may be enqueued at once. */
  list: 1_000,
  priority: 7,
  attempts: 1_000,
} as const

/** The name of a queue or machine: used in paths, labels and logs. */
export const TASK_NAME: RegExp = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/

/** First the states of a live task, then those of a task that has ended. */
export const TASK_STATES = [
  'ready',
  'waiting',
  'claimed',
  'held',
  'dead',
  'done',
  'failed',
  'cancelled',
] as const
export type TaskState = (typeof TASK_STATES)[number]

/** A task without its input and result. */
export type TaskSummary = {
  readonly id: Id<'task'>
  readonly queue: string
  readonly machine: string
  readonly state: TaskState
  /** Why the task is not new any more: `retry`, `later`, `pod_lost`, `suspect` (two pods in a row), `failed`. Of a held task:
   *  `hold` (its error says what for), `shape` (no live pod knows its transitions). */
  readonly reason: string | null
  /** Its current transition; `end` when everything is done but the result; null for a task that has ended, and for a task
   *  with one handler. */
  readonly transition: string | null
  readonly priority: number
  /** How often it was claimed. */
  readonly attempt: number
  /** How many of these claims count against `maxAttempts`, which is not kept after the end. */
  readonly spent: number
  readonly maxAttempts: number | null
  /** The pod that runs it, or ran it when it ended. */
  readonly pod: number | null
  readonly createdAt: string
  /** The task does not start earlier; null after its end. */
  readonly runAt: string | null
  readonly claimedAt: string | null
  readonly endedAt: string | null
  /** The code of its last error. */
  readonly code: string | null
}

/** A transition of a task's machine: done, current, or still ahead. */
export type TaskStep = {
  readonly name: string
  readonly state: (typeof STEP_STATES)[number]
  /** When it was recorded, by which attempt, and how long it ran. */
  readonly at: string | null
  readonly attempt: number | null
  readonly ms: number | null
  /** Its recorded output. */
  readonly value: unknown
}
export const STEP_STATES = [
  'done',
  'running',
  'waiting',
  'held',
  'dead',
  'failed',
  'cancelled',
  'skipped',
  'ahead',
] as const

export type Task = TaskSummary & {
  /** A short code for the names of its machine's transitions; empty for a task with one handler. */
  readonly shape: string
  readonly timeline: readonly TaskStep[]
  readonly input: unknown
  readonly result: unknown
  /** How the task became done, if not by its end. */
  readonly via: 'handoff' | null
  /** The last error, with the last five in `attempts`. */
  readonly error: unknown
}
