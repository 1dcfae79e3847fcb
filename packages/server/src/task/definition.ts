// What a task does, as a plain value: nothing runs until a pod is given it.
//   the handler      its task
//   returns          done, with the value as its result
//   throws           tried again after a growing pause, until its attempts are used up: then it is dead
//   retryAfter(…)    tried again then; does not count as an attempt
//   abort(…)         failed, and not tried again
//   takes too long   as if it had thrown; its signal is aborted first
import { TASK_LIMITS, TASK_NAME, type Id } from '@fleetline/protocol'
import { Abort, Rejected, Retry } from '../errors.ts'
import { durationMs } from '../lib/duration.ts'
import { DEFAULT_QUEUE, isWithin } from './draft.ts'

export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }

/** Of zod, valibot, arktype and others: standardschema.dev. */
export type Schema<Raw, Value> = {
  readonly '~standard': {
    readonly validate: (value: unknown) => Checked<Value> | Promise<Checked<Value>>
    readonly types?: { readonly input: Raw; readonly output: Value } | undefined
  }
}
type Checked<Value> =
  | { readonly value: Value; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] }
type Issue = {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export type TaskContext<Input> = {
  readonly id: Id<'task'>
  /** The same at every attempt: to pass on to whoever must not do it twice. */
  readonly key: string
  readonly input: Input
  /** Which attempt this is, of those that count. */
  readonly attempt: number
  readonly maxAttempts: number
  /** Aborted when the time is over, when the pod stops, or when another pod has taken the task over. */
  readonly signal: AbortSignal
  /** A line in the log of the pod: a fixed phrase, and what varies. */
  log(phrase: string, data?: Json): void
}

export type TaskOptions<Raw, Value> = {
  /** Checked when a task is enqueued through a pod that knows it, and before each attempt. */
  readonly input?: Schema<Raw, Value>
  readonly queue?: string
  /** 7 first, 0 last. */
  readonly priority?: number
  readonly attempts?: number
  /** Of one attempt. */
  readonly timeout?: string
}

/** `Raw` is what is enqueued, `Result` what comes of it. */
export type TaskDefinition<Raw = unknown, Result = unknown> = {
  readonly name: string
  readonly queue: string
  readonly priority: number | undefined
  readonly maxAttempts: number
  readonly timeoutMs: number
  /** What the handler gets to see of an input; rejects one that does not fit. Without a schema: the input itself. */
  readonly parse: ((input: unknown) => Promise<unknown>) | undefined
  readonly run: (context: TaskContext<unknown>) => Promise<unknown>
  readonly types?: { readonly input: Raw; readonly result: Result }
}

const MARK = Symbol.for('fleetline.task') // of any copy of this module
const DEFAULTS = { attempts: 5, timeout: '5m' }
const MOST_MS = 86_400_000

export function task<Raw = unknown, Value = Raw, Result extends Json | void = Json | void>(
  name: string,
  handler: (context: TaskContext<Value>) => Result | Promise<Result>,
  options: TaskOptions<Raw, Value> = {},
): TaskDefinition<Raw, Result> {
  const { queue = DEFAULT_QUEUE, priority, attempts = DEFAULTS.attempts, input: schema } = options
  const timeoutMs = durationMs(`${name}: timeout`, options.timeout ?? DEFAULTS.timeout)
  const refuseUnless = (holds: boolean, text: string) => {
    if (!holds) throw new Rejected('invalid', `task ${name}: ${text}`)
  }
  refuseUnless(TASK_NAME.test(name), `its name must match ${TASK_NAME.source}`)
  refuseUnless(TASK_NAME.test(queue), `queue must match ${TASK_NAME.source}`)
  refuseUnless(
    priority === undefined || isWithin(priority, 0, TASK_LIMITS.priority),
    `priority must be from 0 to ${TASK_LIMITS.priority}`,
  )
  refuseUnless(
    isWithin(attempts, 1, TASK_LIMITS.attempts),
    `attempts must be from 1 to ${TASK_LIMITS.attempts}`,
  )
  refuseUnless(isWithin(timeoutMs, 1, MOST_MS), 'timeout must be from 1ms to 1d')
  const definition = {
    [MARK]: true,
    name,
    queue,
    priority,
    maxAttempts: attempts,
    timeoutMs,
    parse: schema && ((input: unknown) => parse(schema, input)),
    run: async (context: TaskContext<unknown>) => handler(context as TaskContext<Value>), // what `parse` has let through
  }
  return Object.freeze(definition)
}

export function isTask(value: unknown): value is TaskDefinition {
  return typeof value === 'object' && value !== null && MARK in value
}

/** Ends this attempt; the next comes after so long, or then. It does not count. */
export function retryAfter(time: string | Date): never {
  const when = typeof time === 'string' ? { afterMs: durationMs('retryAfter', time) } : { at: time }
  throw new Retry('unavailable', 'The handler asked to be called later', when)
}

/** Ends the task as failed: trying again would not help. */
export function abort(message: string): never {
  throw new Abort('invalid', message)
}

async function parse<Value>(schema: Schema<unknown, Value>, input: unknown): Promise<Value> {
  const checked = await schema['~standard'].validate(input)
  if (checked.issues === undefined) return checked.value
  const [first] = checked.issues
  const path = (first?.path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))
  throw new Rejected('invalid', `${['input', ...path].join('.')}: ${first?.message ?? 'does not fit'}`)
}
