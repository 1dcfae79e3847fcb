// What was thrown, as a row of the queue keeps it: a code that may stand in a list, and a message within its limit.
import { inspect } from 'node:util'
import { TASK_LIMITS } from '@fleetline/protocol'
import { kindOf, type Abort, type AbortOutcome, type Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'

const RETRY = { baseMs: 1_000, capMs: 900_000 }
const LATEST_MS = 365 * 86_400_000
const MESSAGE = 1_000 // characters that an error keeps
const STACK = 4_000

/** min(15 min, 1 s × 2^(n − 1)), from half of it on: those that failed together do not come back together. */
export function retryMs(spent: number, random: Random): number {
  const wholeMs = Math.min(RETRY.capMs, RETRY.baseMs * 2 ** Math.min(spent - 1, 30))
  return wholeMs * (0.5 + random.unit() / 2)
}

export type Thrown = {
  readonly code: string
  readonly message: string
  readonly stack?: string | undefined
  readonly kind?: ReturnType<typeof kindOf>
  /** When it asked to be called again. */
  readonly delayMs?: number | undefined
  /** Of an Abort, which outcome it asked for. */
  readonly outcome?: AbortOutcome | undefined
}

/** Whatever was thrown: also what cannot be looked at without throwing again. */
export function readThrown(error: unknown, clock?: Pick<Clock, 'now'>): Thrown {
  try {
    const kind = kindOf(error)
    return {
      code: codeOf(error),
      message: clean(error instanceof Error ? error.message : error, MESSAGE),
      stack: error instanceof Error ? clean(error.stack, STACK) : undefined,
      kind,
      delayMs: kind === 'Retry' && clock ? laterMs(error as Retry, clock) : undefined,
      outcome: kind === 'Abort' ? (error as Abort).outcome : undefined,
    }
  } catch {
    return { code: 'failed', message: 'What the handler threw cannot be read' }
  }
}

function laterMs({ afterMs, at }: Retry, clock: Pick<Clock, 'now'>): number | undefined {
  const ms: unknown = at instanceof Date ? at.getTime() - clock.now() : afterMs
  return typeof ms !== 'number' || Number.isNaN(ms) ? undefined : Math.min(LATEST_MS, Math.max(0, ms))
}

/** That of the error, `ECONNREFUSED` say, if it has one that may stand in a list. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^[\w.-]{1,63}$/.test(code) ? code : 'failed'
}

function clean(part: unknown, most: number): string {
  const text = typeof part === 'string' ? part : inspect(part, { depth: 1 })
  return text.slice(0, most).replaceAll('\0', '').toWellFormed()
}

type Fault = Pick<Thrown, 'code' | 'message' | 'stack'> & {
  readonly attempt: number
  /** In which it was thrown, if there are several. */
  readonly transition?: string | undefined
  readonly clock: Pick<Clock, 'now'>
}

/** As JSON that can be stored, within its limit. */
export function faultOf({ code, message, stack, attempt, transition, clock }: Fault): string {
  const known = { code, message, transition, attempt, at: new Date(clock.now()).toISOString() }
  const whole = JSON.stringify({ ...known, stack })
  return Buffer.byteLength(whole) <= TASK_LIMITS.errorBytes ? whole : JSON.stringify(known)
}
