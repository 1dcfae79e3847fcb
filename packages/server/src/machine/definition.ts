// Machines as users write them: plain values, of which nothing runs until a pod is given them. Types grow with the chain:
// a transition sees what those before it gave, and `end` sees it all.
import { TASK_LIMITS, TASK_NAME } from '@fleetline/protocol'
import { DEFAULT_QUEUE, isWithin } from '../task/draft.ts'
import { asMachine, type Machine } from '../task/machine.ts'
import { keyOf } from '../throttle/definition.ts'
import type { Handoff, Json, TaskContext, TransitionContext } from './context.ts'
import { LIMITS, limitsOf, refuseUnless, type TransitionLimits } from './limits.ts'
import { PLAIN, shapeOf, transitionsOf, type Plan, type Step } from './plan.ts'
import { openRunner } from './run.ts'
import { parse, type Schema } from './schema.ts'

/** What a name must be to be free: the compiler's message says why it is not. It must be the whole type of a parameter. */
export type Free<Name extends string, Out> = string extends Name
  ? "a transition's name must be a literal"
  : [One<Name>] extends [never]
    ? "a transition's name must be one literal"
    : Name extends keyof Out
      ? `transition "${Name}" is already defined`
      : Name extends 'end'
        ? 'a transition cannot be named "end"'
        : Name
/** Never for a union. */
type One<Name, All = Name> = Name extends unknown ? ([All] extends [Name] ? Name : never) : never
/** Flat, so that 64 transitions are no tower of intersections. */
type Plus<Out, Name extends string, Value> = {
  readonly [K in keyof Out | Name]: K extends keyof Out ? Out[K] : StoredValue<Value>
}
/** Nothing is stored as null; what is stored cannot be changed. */
type StoredValue<Value> = Value extends void ? null : Fixed<Value>
/** Primitives first: one with a brand is an object to the compiler, too. */
type Fixed<Value> = unknown extends Value
  ? Value
  : Value extends string | number | boolean | null | undefined
    ? Value
    : { readonly [K in keyof Value]: Fixed<Value[K]> }

type Maybe<Value> = Value | Promise<Value>

/** `Raw` is what is enqueued, `Input` what the schema makes of it; `Given` is what bodies give as the result, `Result` what
 *  the schema makes of that. */
export type Chain<Raw, Input, Out, Given, Result> = {
  /** A look before the work: it writes nothing, runs again at every resume that comes before the next transition, and
   *  hands off if there is nothing left to do. */
  check(
    name: string,
    body: (c: TransitionContext<Input, Out, Fixed<Given>>) => Promise<Handoff<Fixed<Given>> | void>,
  ): Chain<Raw, Input, Out, Given, Result>
  /** Work, whose output is recorded: then it does not run again. Until then it may, under the same `c.key`. */
  to<Name extends string, Value extends Json | void>(
    name: Free<Name, Out>,
    body: (c: TransitionContext<Input, Out, Fixed<Given>>) => Promise<Value | Handoff<Fixed<Given>>>,
    limits?: TransitionLimits,
  ): Chain<Raw, Input, Plus<Out, Name, Value>, Given, Result>
  /** An output, as it is, may be the result. */
  end(result: (c: EndContext<Input, Out>) => Fixed<Given>): Machine<Raw, Result>
}
type EndContext<Input, Out> = Pick<TransitionContext<Input, Out, never>, 'id' | 'input' | 'out'>

type PlacingOptions = {
  readonly queue?: string
  /** 7 first, 0 last. */
  readonly priority?: number
  /** What its transitions call, if that has a limit, by its key: no more are claimed than there is room for there. */
  readonly downstream?: string
}
export type MachineOptions<Raw, Input, Given, Result> = PlacingOptions & {
  /** Checked when a task is enqueued through a pod that knows it, and before each attempt. */
  readonly input: Schema<Raw, Input>
  readonly output: Schema<Given, Result>
}
export type TaskOptions<Raw, Input> = PlacingOptions &
  Omit<TransitionLimits, 'maxBytes' | 'downstream'> & { readonly input?: Schema<Raw, Input> }

export function machine<Raw, Input, Given, Result extends Json>(
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

/** A machine with one transition, whose output is the result. */
export function task<Raw = unknown, Input = Raw, Result extends Json | void = Json | void>(
  name: string,
  handler: (c: TaskContext<Input>) => Maybe<Result>,
  options: TaskOptions<Raw, Input> = {},
): Machine<Raw, Result> {
  const { input } = options
  const base = placed('task', name, options)
  const limits = limitsOf(`task ${name}`, options)
  const body = handler as (context: TaskContext<unknown>) => unknown // what `parse` has let through
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
