// A machine as it is run: steps in their order, of which transitions are recorded and checks are not.
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
  /** Of its output, as JSON. */
  readonly maxBytes: number
  /** How many may run at once in one pod, if not any number. */
  readonly concurrency: number | undefined
  /** What the body calls, if that has a limit: it runs under a permit. */
  readonly downstream: string | undefined
}
export type Step = CheckStep | Transition

export type Plan = {
  readonly name: string
  readonly steps: readonly Step[]
  /** A task of one handler: its key is its id, and its result is what the handler returned. */
  readonly isPlain: boolean
  readonly maxAttempts: number
  /** Of every transition that names no other: claims ask there for room. */
  readonly downstream: string | undefined
  readonly parse: ((input: unknown) => Promise<unknown>) | undefined
  /** What the task comes to when every transition is done. */
  readonly end: (context: Pick<Context, 'id' | 'input' | 'out'>) => unknown
  /** Rejects a result that does not fit. */
  readonly parseResult: ((result: unknown) => Promise<unknown>) | undefined
}

export const PLAIN = { shape: '', transition: 'run' } as const

export function transitionsOf(steps: readonly Step[]): readonly Transition[] {
  return steps.filter((step) => step.kind === 'transition')
}

/** Checks are left out: nothing of them is stored, so that a task may meet more of them, or fewer, when it goes on. */
export function shapeOf(names: readonly string[]): string {
  const listed = names.map((name) => `to ${name}`).join('\n')
  return createHash('sha256').update(listed).digest('hex').slice(0, 8)
}

/** What is left to do from a position on: checks that stand directly behind it come again. */
export function stepsFrom(steps: readonly Step[], position: number): readonly Step[] {
  if (position === 0) return steps
  const last = transitionsOf(steps)[position - 1]
  return last ? steps.slice(steps.indexOf(last) + 1) : []
}
