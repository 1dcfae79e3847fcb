// A task before it enters a batch: validated, with its id, and with its input as the JSON text that is stored. Pure: time and
// randomness are arguments.
import { jsonFault, parseId, TASK_LIMITS, TASK_NAME, uuidV7 } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'

export type TaskSpec = {
  readonly machine: string
  readonly input?: unknown
  readonly queue?: string | undefined
  /** 7 runs first, 0 last. */
  readonly priority?: number | undefined
  /** It does not start before this time, by the database's clock. */
  readonly runAt?: Date | undefined
  readonly maxAttempts?: number | undefined
  /** Enqueuing the same id again stores nothing twice, even after the task has ended, as long as its history is kept. */
  readonly id?: string | undefined
}

/** With the shape of its machine, if this pod knows it. Otherwise the insert chooses one, preferably one that a live pod runs. */
export type Shaped = TaskSpec & { readonly shape?: string }

export type TaskDraft = {
  readonly id: string
  /** Whether the caller chose the id. Then the same id may come again. */
  readonly isNamed: boolean
  readonly tenant: number
  readonly queue: string
  readonly machine: string
  readonly shape: string | null
  readonly priority: number
  readonly runAt: Date | null
  /** Null: the default of the track. */
  readonly maxAttempts: number | null
  readonly input: string
}

type Deps = { readonly clock: Clock; readonly random: Random; readonly cell: number }

export const DEFAULT_QUEUE = 'default'
const LAST_MS = Date.parse('9999-12-31T00:00:00Z')

export function draftOf(deps: Deps, tenant: number, spec: Shaped): TaskDraft {
  const {
    machine,
    input = null,
    queue = DEFAULT_QUEUE,
    priority = 3,
    runAt = null,
    maxAttempts = null,
  } = spec
  refuseUnless(TASK_NAME.test(queue), 'queue', `must match ${TASK_NAME.source}`)
  refuseUnless(TASK_NAME.test(machine), 'machine', `must match ${TASK_NAME.source}`)
  refuseUnless(
    isWithin(priority, 0, TASK_LIMITS.priority),
    'priority',
    `must be from 0 to ${TASK_LIMITS.priority}`,
  )
  refuseUnless(
    runAt === null || isWithin(runAt.getTime(), 0, LAST_MS),
    'runAt',
    'must be a date from 1970 to 9999',
  )
  refuseUnless(
    maxAttempts === null || isWithin(maxAttempts, 1, TASK_LIMITS.attempts),
    'maxAttempts',
    `must be from 1 to ${TASK_LIMITS.attempts}`,
  )
  return {
    id: spec.id === undefined ? uuidV7(deps.clock.now(), deps.random.bytes(10)) : uuidOf(spec.id, deps.cell),
    isNamed: spec.id !== undefined,
    tenant,
    queue,
    machine,
    shape: spec.shape ?? null,
    priority,
    runAt,
    maxAttempts,
    input: toStorableJson('input', input, TASK_LIMITS.inputBytes),
  }
}

/** Returns JSON text. Rejects a value that PostgreSQL cannot store, or that is over the limit. */
export function toStorableJson(name: string, value: unknown, bytes: number): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value, finite) as string | undefined // undefined for a function, for example
  } catch (cause) {
    if (cause instanceof RangeError)
      throw new Rejected('invalid', `${name}: a number is out of range`, { cause })
    throw new Rejected('invalid', `${name}: cannot be written as JSON`, { cause })
  }
  if (text === undefined) throw new Rejected('invalid', `${name}: cannot be written as JSON`)
  if (Buffer.byteLength(text) > bytes) throw new Rejected('too_large', `${name}: over ${bytes} bytes of JSON`)
  const fault = jsonFault(JSON.parse(text))
  if (fault !== undefined) throw new Rejected('invalid', `${name}: ${fault}`)
  return text
}

/** JSON has no NaN and no Infinity: JSON.stringify would write null. */
function finite(_key: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new RangeError('not a finite number')
  return value
}

function uuidOf(id: string, cell: number): string {
  const parsed = parseId('task', id)
  refuseUnless(parsed?.cell === cell, 'id', 'is not the id of a task here')
  return parsed!.uuid
}

export function isWithin(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max
}

function refuseUnless(holds: boolean, field: string, text: string): void {
  if (!holds) throw new Rejected('invalid', `${field}: ${text}`)
}
