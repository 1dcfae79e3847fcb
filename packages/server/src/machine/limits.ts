// How long, how often, how large and how many: what a transition may say about itself, and what holds if it does not.
import { TASK_LIMITS } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import { durationMs } from '../lib/duration.ts'
import { isWithin } from '../task/draft.ts'
import { keyOf } from '../throttle/definition.ts'
import type { Transition } from './plan.ts'

export type TransitionLimits = {
  /** Of one attempt. */
  readonly timeout?: string
  readonly attempts?: number
  /** Of its output, as JSON. */
  readonly maxBytes?: number
  /** How many may run at once in one pod; the others wait, and their time does not run. */
  readonly concurrency?: number
  /** What it calls, if that has a limit, by its key: it runs under a permit, and its time does not run while it waits. */
  readonly downstream?: string
}

export const LIMITS = {
  timeoutMs: 300_000,
  attempts: 5,
  maxBytes: 65_536,
  /** Of all outputs of a task. */
  carryBytes: 262_144,
  transitions: 64,
} as const

const MOST = { timeoutMs: 86_400_000, concurrency: 10_000 }

/** Refuses, saying which of `what`, what cannot be meant. */
export function limitsOf(
  what: string,
  {
    timeout,
    attempts = LIMITS.attempts,
    maxBytes = LIMITS.maxBytes,
    concurrency,
    downstream,
  }: TransitionLimits,
): Omit<Transition, 'kind' | 'name' | 'body'> {
  const timeoutMs = timeout === undefined ? LIMITS.timeoutMs : durationMs(`${what}: timeout`, timeout)
  refuseUnless(isWithin(timeoutMs, 1, MOST.timeoutMs), `${what}: timeout must be from 1ms to 1d`)
  const inRange = (name: string, value: number, most: number) =>
    refuseUnless(isWithin(value, 1, most), `${what}: ${name} must be from 1 to ${most}`)
  inRange('attempts', attempts, TASK_LIMITS.attempts)
  inRange('maxBytes', maxBytes, LIMITS.carryBytes)
  inRange('concurrency', concurrency ?? 1, MOST.concurrency)
  if (downstream !== undefined) keyOf(downstream)
  return { timeoutMs, attempts, maxBytes, concurrency, downstream }
}

export function refuseUnless(holds: boolean, text: string): void {
  if (!holds) throw new Rejected('invalid', text)
}
