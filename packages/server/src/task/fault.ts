// Converts what was thrown into what a task's row keeps: a code that may be shown in a list, and a message within its limit.
import { inspect } from 'node:util'
import { TASK_LIMITS } from '@fleetline/protocol'
import { kindOf, type Abort, type AbortOutcome, type Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { quotesValues, type LogFields } from '../telemetry/log.ts'

const RETRY = { baseMs: 1_000, capMs: 900_000 }
const LATEST_MS = 365 * 86_400_000
const MESSAGE = 1_000 // characters that an error keeps
const STACK = 4_000

/** From half of min(15 min, 1 s × 2^(n − 1)) up to all of it, so that tasks that failed together do not return together. */
export function retryMs(spent: number, random: Random): number {
  const wholeMs = Math.min(RETRY.capMs, RETRY.baseMs * 2 ** Math.min(spent - 1, 30))
  return wholeMs * (0.5 + random.unit() / 2)
}

export type Thrown = {
  readonly code: string
  readonly message: string
  readonly stack?: string | undefined
  readonly kind?: ReturnType<typeof kindOf>
  /** The delay that a Retry asked for. */
  readonly delayMs?: number | undefined
  /** The outcome that an Abort asked for. */
  readonly outcome?: AbortOutcome | undefined
}

/** Reads any thrown value, even one that throws again when it is inspected. */
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

/** The error's own code, such as `ECONNREFUSED`, if it has one that may be shown in a list. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^[\w.-]{1,63}$/.test(code) ? code : 'failed'
}

function clean(part: unknown, most: number): string {
  const text = typeof part === 'string' ? part : inspect(part, { depth: 1 })
  return text.replaceAll('\0', '').slice(0, most).toWellFormed()
}

type Fault = Pick<Thrown, 'code' | 'message' | 'stack'> & {
  readonly attempt: number
  /** The transition that threw, if the machine has several. */
  readonly transition?: string | undefined
  readonly clock: Pick<Clock, 'now'>
}

/** As JSON that can be stored. The stack is left out if it would exceed the limit. */
export function faultOf({ code, message, stack, attempt, transition, clock }: Fault): string {
  const known = { code, message, transition, attempt, at: new Date(clock.now()).toISOString() }
  const whole = JSON.stringify({ ...known, stack })
  return Buffer.byteLength(whole) <= TASK_LIMITS.errorBytes ? whole : JSON.stringify(known)
}

/** What the app's code threw, with its stack: that is what a developer looks for first. If PostgreSQL's message would quote a
 *  value, only the places are logged. */
export function faultFields(error: string): Pick<LogFields, 'code' | 'stack' | 'reason'> {
  const { code, message, stack } = JSON.parse(error) as { code: string; message: string; stack?: string }
  const isQuoting = quotesValues(code)
  if (isQuoting) return { code, ...(stack !== undefined && placesIn(stack, message)) }
  return stack === undefined ? { code, reason: message } : { code, stack }
}

/** Returns only the places, which follow the message. If the message is not whole, nobody knows where it ends: no stack. */
function placesIn(stack: string, message: string): { readonly stack?: string } {
  const at = stack.indexOf(message)
  const isWhole = message !== '' && message.length < MESSAGE && at !== -1
  const places = isWhole ? stack.slice(at + message.length) : ''
  return places.startsWith('\n    at ') ? { stack: places.slice(1) } : {}
}
