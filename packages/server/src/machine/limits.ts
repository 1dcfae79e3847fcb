// The limits of a transition: time, attempts, size, concurrency and downstream. Also their defaults and allowed values.
import { TASK_LIMITS } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import { durationMs } from '../lib/duration.ts'
import { isWithin } from '../task/draft.ts'
import { keyOf } from '../throttle/definition.ts'
import type { Transition } from './plan.ts'

export type TransitionLimits = {
  /** The time limit of one attempt. */
  readonly timeout?: string
  readonly attempts?: number
  /** The size limit of its output, as JSON. */
  readonly maxBytes?: number
  /** How many may run at once on one pod. The others wait; the wait does not count toward the timeout. */
  readonly concurrency?: number
  /** The key of the downstream that it calls. It then runs under a permit. The wait for it does not count toward the timeout. */
  readonly downstream?: string
}

export const LIMITS = {
  timeoutMs: 300_000,
  attempts: 5,
  maxBytes: 65_536,
  /** All outputs of a task together. */
  carryBytes: 262_144,
  transitions: 64,
} as const

const MOST = { timeoutMs: 86_400_000, concurrency: 10_000 }

/** Rejects limits outside their range. The error begins with `what`. */
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
