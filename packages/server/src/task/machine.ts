// A machine as the queue sees it: in which queue its tasks wait, which of them a pod may claim, and what runs a claim. The
// `machine` folder knows its steps.
import type { Runner } from './runner.ts'

/** `Raw` is the input that is enqueued, `Result` the result. */
export type Machine<Raw = unknown, Result = unknown> = {
  readonly name: string
  readonly queue: string
  /** Stands for the names of its transitions, in order. A pod claims no task of a shape that it does not know. */
  readonly shape: string
  readonly transitions: readonly string[]
  readonly maxAttempts: number
  /** Only Fleetline writes its tasks, and only the code that wrote them ends them. Nobody can enqueue one by name. */
  readonly isInternal?: boolean
  readonly priority: number | undefined
  /** Validates an input, and resolves to what its bodies see. Undefined without a schema: the bodies see the input itself. */
  readonly parse: ((input: unknown) => Promise<unknown>) | undefined
  /** Creates the runner for one pod. Each pod counts its own concurrent bodies. */
  readonly open: () => Runner
  readonly types?: { readonly input: Raw; readonly result: Result }
}

const MARK = Symbol.for('fleetline.machine') // the same in any copy of this module

export function asMachine<Raw, Result>(machine: Machine<Raw, Result>): Machine<Raw, Result> {
  return Object.freeze({ ...machine, [MARK]: true })
}

export function isMachine(value: unknown): value is Machine {
  return typeof value === 'object' && value !== null && MARK in value
}
