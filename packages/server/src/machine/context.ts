// What a body sees of its task.
import { formatId, type Id } from '@fleetline/protocol'
import type { Claim } from '../task/claim.ts'
import { toStorableJson } from '../task/draft.ts'
import type { Call, Surroundings } from '../task/runner.ts'

export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }

/** A value that can be stored as JSON. Checked by its fields, so that an `interface` fits, too. */
export type Storable<Value> = Json | (object & Plain & Fields<Value>)
type Fields<Value> = { readonly [Key in keyof Value]: Field<Value[Key]> }
type Field<Value> = 0 extends 1 & Value // `any` cannot be checked
  ? Value
  : unknown extends Value
    ? never
    : [Value] extends [Json | undefined]
      ? Value
      : Value extends bigint | symbol | ((...args: never[]) => unknown)
        ? never
        : Fields<Value>
/** Excludes functions and promises, which a check of their fields would accept. */
type Plain = { readonly [Symbol.hasInstance]?: never; readonly then?: never }

export type TaskContext<Input> = {
  readonly id: Id<'task'>
  /** The same at every attempt: pass it to services that must not do the work twice. Each transition has its own. */
  readonly key: string
  readonly input: Input
  /** The number of this attempt, of those that count. */
  readonly attempt: number
  readonly maxAttempts: number
  /** Aborted at the time limit, when the pod stops, or when another pod has taken over the task. */
  readonly signal: AbortSignal
  /** Tells the downstream when the first part of the answer arrives, and what the provider answered. */
  readonly call: Call
  /** Writes a line to the pod's log: a fixed phrase, and data that varies. */
  log(phrase: string, data?: Json): void
}

declare const handed: unique symbol
/** A brand, so that no output is a hand-off by accident. */
export type Handoff<Result> = { readonly [handed]: Result }

export type TransitionContext<Input, Out, Result> = TaskContext<Input> & {
  /** The outputs of the transitions before this one. */
  readonly out: Out
  /** Whether an earlier attempt may have begun this transition. */
  readonly resumed: boolean
  /** Return its value to end the task as done with this result and skip the rest of the machine. */
  handoff(result: Result): Handoff<Result>
}

/** The context as the engine passes it, without the types of a machine. */
export type Context = TransitionContext<unknown, Readonly<Record<string, unknown>>, unknown>

const HANDED = Symbol.for('fleetline.handoff') // shared by all copies of this module
const LOG_BYTES = 4_096

type Given = Pick<Context, 'input' | 'out' | 'attempt' | 'maxAttempts' | 'resumed' | 'signal' | 'call'> & {
  /** Undefined for a task with one handler. */
  readonly transition: string | undefined
}

export function contextOf(claim: Claim, { cell, log }: Surroundings, given: Given): Context {
  const { transition, ...rest } = given
  const id = formatId('task', cell, claim.id)
  return {
    ...rest,
    id,
    key: transition === undefined ? id : `${id}/${transition}`,
    handoff: (result) => ({ [HANDED]: result }) as unknown as Handoff<unknown>,
    log: (phrase, data) => log.info(phrase, data === undefined ? {} : { data: loggable(data) }),
  }
}

/** The result that a body handed off. Undefined: it returned something else. */
export function readHandoff(value: unknown): { readonly result: unknown } | undefined {
  try {
    if (typeof value !== 'object' || value === null || !(HANDED in value)) return undefined
    return { result: value[HANDED] }
  } catch {
    return undefined // it cannot be read, so it cannot be stored either
  }
}

function loggable(data: Json): unknown {
  try {
    return JSON.parse(toStorableJson('data', data, LOG_BYTES))
  } catch {
    return `not shown: over ${LOG_BYTES} bytes, or no JSON`
  }
}
