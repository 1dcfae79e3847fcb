// A machine as the queue sees it: where its tasks stand, which of them a pod may claim, and who runs a claim. What it is
// made of is known further up.
import type { Runner } from './runner.ts'

/** `Raw` is what is enqueued, `Result` what comes of it. */
export type Machine<Raw = unknown, Result = unknown> = {
  readonly name: string
  readonly queue: string
  /** Short for the names of its transitions in their order: a pod claims no task of a shape that it does not know. */
  readonly shape: string
  readonly transitions: readonly string[]
  readonly maxAttempts: number
  /** Only Fleetline writes its tasks, and only what wrote them ends them: nobody enqueues one by name. */
  readonly isInternal?: boolean
  readonly priority: number | undefined
  /** What its bodies get to see of an input; rejects one that does not fit. Without a schema: the input itself. */
  readonly parse: ((input: unknown) => Promise<unknown>) | undefined
  /** For one pod, which counts for itself how many bodies run at once. */
  readonly open: () => Runner
  readonly types?: { readonly input: Raw; readonly result: Result }
}

const MARK = Symbol.for('fleetline.machine') // of any copy of this module

export function asMachine<Raw, Result>(machine: Machine<Raw, Result>): Machine<Raw, Result> {
  return Object.freeze({ ...machine, [MARK]: true })
}

export function isMachine(value: unknown): value is Machine {
  return typeof value === 'object' && value !== null && MARK in value
}
