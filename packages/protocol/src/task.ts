// A task as the wire knows it.
import type { Id } from './ids.ts'

export const TASK_LIMITS = {
  /** As JSON in UTF-8. */
  inputBytes: 262_144,
  resultBytes: 65_536,
  errorBytes: 8_192,
  /** How many may be enqueued at once. */
  list: 1_000,
  priority: 7,
  attempts: 1_000,
} as const

/** Of queues and machines: it stands in paths, labels and logs. */
export const TASK_NAME: RegExp = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/

/** Of a task that lives, and then of one that ended. */
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

/** A task without what it carries. */
export type TaskSummary = {
  readonly id: Id<'task'>
  readonly queue: string
  readonly machine: string
  readonly state: TaskState
  /** Why it is not new any more: `retry`, `later`, `pod_lost`, `suspect` (two pods in a row), `failed`; of one that is
   *  held: `hold` (its error says what for), `shape` (no live pod knows its transitions). */
  readonly reason: string | null
  /** Where it stands in its machine; `end` when all of it is done but the result; null when it has
   *  ended, and for a task of one handler. */
  readonly transition: string | null
  readonly priority: number
  /** How often it was claimed. */
  readonly attempt: number
  /** How many of these count against `maxAttempts`, which is not kept when it ends. */
  readonly spent: number
  readonly maxAttempts: number | null
  /** Which pod has it, or had it when it ended. */
  readonly pod: number | null
  readonly createdAt: string
  /** Not before this; null when it has ended. */
  readonly runAt: string | null
  readonly claimedAt: string | null
  readonly endedAt: string | null
  /** Of its last error. */
  readonly code: string | null
}

/** A transition of a task's machine: done, where the task stands, or behind that. */
export type TaskStep = {
  readonly name: string
  readonly state: (typeof STEP_STATES)[number]
  /** When it was recorded, by which attempt, and how long its body ran. */
  readonly at: string | null
  readonly attempt: number | null
  readonly ms: number | null
  /** What it gave. */
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
  /** Short for the names of its machine's transitions; empty for a task of one handler. */
  readonly shape: string
  readonly timeline: readonly TaskStep[]
  readonly input: unknown
  readonly result: unknown
  /** How it came to be done, if not by its end. */
  readonly via: 'handoff' | null
  /** The last one, with the last five in `attempts`. */
  readonly error: unknown
}
