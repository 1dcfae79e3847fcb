// A machine as it is run: its steps in order. Transitions are recorded, checks are not.
import { createHash } from 'node:crypto'
import type { Context } from './context.ts'

type Body = (context: Context) => unknown

export type CheckStep = { readonly kind: 'check'; readonly name: string; readonly body: Body }
export type Transition = {
  readonly kind: 'transition'
  readonly name: string
  readonly body: Body
  readonly timeoutMs: number
  readonly attempts: number
  /** The size limit of its output, as JSON. */
  readonly maxBytes: number
  /** How many may run at once on one pod. Undefined: no limit. */
  readonly concurrency: number | undefined
  /** The key of the downstream that the body calls, if any. The body then runs under a permit. */
  readonly downstream: string | undefined
}
export type Step = CheckStep | Transition

export type Plan = {
  readonly name: string
  readonly steps: readonly Step[]
  /** A task with one handler: its key is its id, and its result is what the handler returned. */
  readonly isPlain: boolean
  readonly maxAttempts: number
  /** The downstream of every transition that names no other. Claims check it for room. */
  readonly downstream: string | undefined
  readonly parse: ((input: unknown) => Promise<unknown>) | undefined
  /** Makes the result when every transition is done. */
  readonly end: (context: Pick<Context, 'id' | 'input' | 'out'>) => unknown
  /** Rejects a result that does not fit. */
  readonly parseResult: ((result: unknown) => Promise<unknown>) | undefined
}

export const PLAIN = { shape: '', transition: 'run' } as const

export function transitionsOf(steps: readonly Step[]): readonly Transition[] {
  return steps.filter((step) => step.kind === 'transition')
}

/** Checks are left out. Nothing of them is stored, so a task may find more or fewer of them when it resumes. */
export function shapeOf(names: readonly string[]): string {
  const listed = names.map((name) => `to ${name}`).join('\n')
  return createHash('sha256').update(listed).digest('hex').slice(0, 8)
}

/** The steps left from a position on. Checks directly after it run again. */
export function stepsFrom(steps: readonly Step[], position: number): readonly Step[] {
  if (position === 0) return steps
  const last = transitionsOf(steps)[position - 1]
  return last ? steps.slice(steps.indexOf(last) + 1) : []
}
