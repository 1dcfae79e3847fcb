// What a body gets to see of its task.
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

export type TaskContext<Input> = {
  readonly id: Id<'task'>
  /** The same at every attempt: to pass on to whoever must not do it twice. Each transition has its own. */
  readonly key: string
  readonly input: Input
  /** Which attempt this is, of those that count. */
  readonly attempt: number
  readonly maxAttempts: number
  /** Aborted when the time is over, when the pod stops, or when another pod has taken the task over. */
  readonly signal: AbortSignal
  /** What its downstream is told about the call: that the first part of the answer is there, and what it was answered. */
  readonly call: Call
  /** A line in the log of the pod: a fixed phrase, and what varies. */
  log(phrase: string, data?: Json): void
}

declare const handed: unique symbol
/** A brand: no output is one by accident. */
export type Handoff<Result> = { readonly [handed]: Result }

export type TransitionContext<Input, Out, Result> = TaskContext<Input> & {
  /** What the transitions before this one gave. */
  readonly out: Out
  /** Whether an attempt before this one may have begun this transition. */
  readonly resumed: boolean
  /** To be returned: the task is done, with this result; what is left of the machine is skipped. */
  handoff(result: Result): Handoff<Result>
}

/** As the engine hands it over, whatever the types of its machine. */
export type Context = TransitionContext<unknown, Readonly<Record<string, unknown>>, unknown>

const HANDED = Symbol.for('fleetline.handoff') // of any copy of this module
const LOG_BYTES = 4_096

type Given = Pick<Context, 'input' | 'out' | 'attempt' | 'maxAttempts' | 'resumed' | 'signal' | 'call'> & {
  /** None for a task of one handler. */
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

/** What a body handed off, if that is what it returned. */
export function readHandoff(value: unknown): { readonly result: unknown } | undefined {
  try {
    if (typeof value !== 'object' || value === null || !(HANDED in value)) return undefined
    return { result: value[HANDED] }
  } catch {
    return undefined // it cannot be looked at, nor stored
  }
}

function loggable(data: Json): unknown {
  try {
    return JSON.parse(toStorableJson('data', data, LOG_BYTES))
  } catch {
    return `not shown: over ${LOG_BYTES} bytes, or no JSON`
  }
}
