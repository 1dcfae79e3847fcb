// Machines as users write them: plain values. Nothing runs until you pass them to a pod. Types grow with the chain: a transition
// sees the outputs of those before it, and `end` sees all of them.
import { TASK_LIMITS, TASK_NAME } from '@fleetline/protocol'
import { DEFAULT_QUEUE, isWithin } from '../task/draft.ts'
import { asMachine, type Machine } from '../task/machine.ts'
import { keyOf } from '../throttle/definition.ts'
import type { Handoff, Json, Storable, TaskContext, TransitionContext } from './context.ts'
import { LIMITS, limitsOf, refuseUnless, type TransitionLimits } from './limits.ts'
import { PLAIN, shapeOf, transitionsOf, type Plan, type Step } from './plan.ts'
import { openRunner } from './run.ts'
import { parse, type Schema } from './schema.ts'

/** The name itself if it is free; otherwise a text that the compiler shows as the reason. It must be the whole type of a
 *  parameter. */
export type Free<Name extends string, Out> = string extends Name
  ? "a transition's name must be a literal"
  : [One<Name>] extends [never]
    ? "a transition's name must be one literal"
    : Name extends keyof Out
      ? `transition "${Name}" is already defined`
      : Name extends 'end'
        ? 'a transition cannot be named "end"'
        : Name
/** `never` for a union. */
type One<Name, All = Name> = Name extends unknown ? ([All] extends [Name] ? Name : never) : never
/** Flat, so that 64 transitions do not become 64 nested intersections. */
type Plus<Out, Name extends string, Value> = {
  readonly [K in keyof Out | Name]: K extends keyof Out ? Out[K] : StoredValue<Value>
}
/** `undefined` is stored as null. Stored values are read-only. */
type StoredValue<Value> = Value extends void ? null : Fixed<Value>
/** Primitives come first: to the compiler, a branded primitive is an object, too. */
type Fixed<Value> = unknown extends Value
  ? Value
  : Value extends string | number | boolean | null | undefined
    ? Value
    : { readonly [K in keyof Value]: Fixed<Value[K]> }

type Maybe<Value> = Value | Promise<Value>

/** `Raw` is what is enqueued, and `Input` what the schema makes of it. `Given` is what bodies return as the result, and `Result`
 *  what the schema makes of that. */
export type Chain<Raw, Input, Out, Given, Result> = {
  /** Runs before the work. A check stores nothing and runs again at every resume before the next transition. It hands off if
   *  there is nothing left to do. */
  check(
    name: string,
    body: (c: TransitionContext<Input, Out, Fixed<Given>>) => Maybe<Handoff<Fixed<Given>> | void>,
  ): Chain<Raw, Input, Out, Given, Result>
  /** Work whose output is recorded. Until it is recorded it may run again, under the same `c.key`; after that it does not. */
  to<Name extends string, Value extends Storable<Value> | void>(
    name: Free<Name, Out>,
    body: (c: TransitionContext<Input, Out, Fixed<Given>>) => Maybe<Value | Handoff<Fixed<Given>>>,
    limits?: TransitionLimits,
  ): Chain<Raw, Input, Plus<Out, Name, Value>, Given, Result>
  /** An output may be the result as it is. */
  end(result: (c: EndContext<Input, Out>) => Fixed<Given>): Machine<Raw, Result>
}
type EndContext<Input, Out> = Pick<TransitionContext<Input, Out, never>, 'id' | 'input' | 'out'>

type PlacingOptions = {
  readonly queue?: string
  /** 7 goes first, 0 last. */
  readonly priority?: number
  /** The key of the downstream that its transitions call. Pods then claim only as many tasks as the downstream has room for. */
  readonly downstream?: string
}
export type MachineOptions<Raw, Input, Given, Result> = PlacingOptions & {
  /** Validated when a task is enqueued through a pod that knows the machine, and before each attempt. */
  readonly input: Schema<Raw, Input>
  readonly output: Schema<Given, Result>
}
export type TaskOptions<Raw, Input> = PlacingOptions &
  Omit<TransitionLimits, 'maxBytes' | 'downstream'> & { readonly input?: Schema<Raw, Input> }

export function machine<Raw, Input, Given, Result extends Storable<Result>>(
  name: string,
  options: MachineOptions<Raw, Input, Given, Result>,
): Chain<Raw, Input, {}, Given, Result> {
  const { input, output } = options
  const base = {
    ...placed('machine', name, options),
    parse: (value: unknown) => parse('input', input, value),
    parseResult: (value: unknown) => parse('output', output, value),
  }
  return chain(base, []) as unknown as Chain<Raw, Input, {}, Given, Result>
}

/** A machine with one transition. Its output is the result. */
export function task<Raw = unknown, Input = Raw, Result extends Storable<Result> | void = Json | void>(
  name: string,
  handler: (c: TaskContext<Input>) => Maybe<Result>,
  options: TaskOptions<Raw, Input> = {},
): Machine<Raw, Result> {
  const { input } = options
  const base = placed('task', name, options)
  const limits = limitsOf(`task ${name}`, options)
  const body = handler as (context: TaskContext<unknown>) => unknown // `parse` has validated the input
  const plan: Plan = {
    name,
    steps: [{ kind: 'transition', name: PLAIN.transition, body, ...limits }],
    isPlain: true,
    maxAttempts: limits.attempts,
    downstream: limits.downstream,
    parse: input && ((value: unknown) => parse('input', input, value)),
    end: () => undefined,
    parseResult: undefined,
  }
  return machineOf(base, plan, PLAIN.shape) as Machine<Raw, Result>
}

type Base = Pick<Machine, 'name' | 'queue' | 'priority'> & Pick<Plan, 'downstream'>

function placed(
  kind: string,
  name: string,
  { queue = DEFAULT_QUEUE, priority, downstream }: PlacingOptions,
): Base {
  refuseUnless(TASK_NAME.test(name), `${kind} ${name}: its name must match ${TASK_NAME.source}`)
  refuseUnless(TASK_NAME.test(queue), `${kind} ${name}: queue must match ${TASK_NAME.source}`)
  refuseUnless(
    priority === undefined || isWithin(priority, 0, TASK_LIMITS.priority),
    `${kind} ${name}: priority must be from 0 to ${TASK_LIMITS.priority}`,
  )
  return { name, queue, priority, downstream: downstream === undefined ? undefined : keyOf(downstream) }
}

function chain(
  base: Base & Pick<Plan, 'parse' | 'parseResult'>,
  steps: readonly Step[],
): Chain<unknown, unknown, {}, never, never> {
  const { name, downstream, parse: parseInput, parseResult } = base
  const plus = (step: Step) => chain(base, [...steps, fitting(name, steps, step)])
  return Object.freeze({
    check: (step, body) => plus({ kind: 'check', name: step, body: body as Step['body'] }),
    to: (step, body, limits = {}) => {
      const own = limitsOf(`machine ${name}, ${step}`, { ...(downstream && { downstream }), ...limits })
      return plus({ kind: 'transition', name: step, body: body as Step['body'], ...own }) as never
    },
    end: (result) => {
      const transitions = transitionsOf(steps)
      refuseUnless(transitions.length > 0, `machine ${name}: has no transition`)
      const maxAttempts = Math.max(...transitions.map((one) => one.attempts))
      const shared = { name, steps, maxAttempts, downstream, parse: parseInput, parseResult }
      const plan: Plan = { ...shared, isPlain: false, end: result }
      return machineOf(base, plan, shapeOf(transitions.map((one) => one.name))) as never
    },
  } satisfies Chain<unknown, unknown, {}, never, never>)
}

function fitting(machineName: string, steps: readonly Step[], step: Step): Step {
  const what = `machine ${machineName}, ${step.name}`
  refuseUnless(TASK_NAME.test(step.name), `${what}: its name must match ${TASK_NAME.source}`)
  refuseUnless(step.name !== 'end', `${what}: this is what a timeline calls its end`)
  refuseUnless(!steps.some(({ name }) => name === step.name), `${what}: is already defined`)
  const isFull = transitionsOf(steps).length >= LIMITS.transitions
  refuseUnless(
    step.kind === 'check' || !isFull,
    `${what}: a machine has at most ${LIMITS.transitions} transitions`,
  )
  return step
}

function machineOf({ name, queue, priority }: Base, plan: Plan, shape: string): Machine {
  const transitions = transitionsOf(plan.steps).map((step) => step.name)
  const { maxAttempts, parse: parseInput } = plan
  const open = () => openRunner(plan)
  return asMachine({ name, queue, priority, shape, transitions, maxAttempts, parse: parseInput, open })
}
