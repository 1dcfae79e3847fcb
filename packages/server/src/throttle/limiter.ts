// One downstream, as one pod calls it. A call is sent under a permit, which one synchronous step grants after the whole test,
// and which comes back once, however the call ends: by its return, its error, its abort, or its deadline (T5). Nothing is
// tried again here: what was not sent, or failed, is the caller's to put off.
import { Retry } from '../errors.ts'
import { within, type Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { createLine } from './line.ts'
import { failureIn, failureOf, type Failure } from './outcome.ts'
import { replyOf } from './reply.ts'
import {
  capOf,
  ended,
  maySend,
  opened,
  reopensAtMs,
  sent,
  type End,
  type Rules,
  type Window,
} from './window.ts'

export type Call = {
  /** Of the caller, and of the deadline: pass it on to whatever is called. */
  readonly signal: AbortSignal
  /** The first part of the answer is there. */
  firstToken(): void
  /** What the provider answered, for a caller who does not throw its refusals. */
  response(status: number, headers?: unknown, body?: unknown): void
}
export type RunOptions = {
  readonly signal?: AbortSignal
  /** For a permit; longer belongs in the queue. */
  readonly maxWait?: string
}
export type Standing = {
  /** How many may be in flight here, as learnt so far. */
  readonly limit: number
  readonly held: number
  readonly waiting: number
  /** Until when nothing is sent, if that lies ahead. */
  readonly pausedUntil: Date | undefined
}
export type Limiter = {
  run<Value>(body: (call: Call) => Promise<Value>, options: Patience): Promise<Value>
  readonly standing: () => Standing
}
type Patience = { readonly maxWaitMs: number; readonly signal?: AbortSignal | undefined }
type Deps = {
  readonly key: string
  readonly clock: Clock
  readonly random: Random
  readonly rules: Rules
  readonly deadlineMs: number
}

const MOST_WAITING = 10_000

export function createLimiter({ key, clock, random, rules, deadlineMs }: Deps): Limiter {
  let window: Window = opened(rules)
  let alarm: AbortController | undefined
  const line = createLine({
    mayEnter: () => maySend(window, clock.monotonicMs()),
    enter: () => {
      window = sent(window, clock.monotonicMs())
    },
  })
  const move = () => {
    line.move()
    wakeAfterPause()
  }
  const wakeAfterPause = () => {
    alarm?.abort()
    const pauseMs = window.pauseUntilMs - clock.monotonicMs()
    if (line.size === 0 || pauseMs <= 0) return
    alarm = new AbortController()
    clock.sleep(Math.ceil(pauseMs), alarm.signal).then(move, () => undefined) // aborted: the pause has changed
  }
  const end = (how: End) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit(), rules }
    window = ended(window, how, moment).window
    move()
  }
  const refusal = (what: string) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit() }
    const at = new Date(clock.now() + reopensAtMs(window, moment) - moment.nowMs)
    return new Retry('rate_limited', `${key}: ${what}; nothing was sent`, { at, fields: { key } })
  }
  /** Resolves with a permit taken. */
  const admit = async ({ maxWaitMs, signal }: Patience) => {
    signal?.throwIfAborted()
    if (line.size >= MOST_WAITING) throw refusal(`${MOST_WAITING} calls wait already`)
    if (line.pass()) return
    const { turn, leave } = line.join()
    move()
    signal?.addEventListener('abort', leave, { once: true })
    const over = new AbortController()
    clock.sleep(maxWaitMs, over.signal).then(leave, () => undefined) // aborted: it has its answer
    const isIn = await turn
    over.abort()
    signal?.removeEventListener('abort', leave)
    if (isIn) return
    signal?.throwIfAborted()
    throw refusal(`no permit within ${maxWaitMs} ms`)
  }
  return {
    run: async (body, patience) => {
      await admit(patience)
      return attempt({ body, clock, deadlineMs, signal: patience.signal, end })
    },
    standing: () => {
      const pauseMs = window.pauseUntilMs - clock.monotonicMs()
      const pausedUntil = pauseMs > 0 ? new Date(clock.now() + pauseMs) : undefined
      return { limit: capOf(window), held: window.held, waiting: line.size, pausedUntil }
    },
  }
}

type Attempt<Value> = {
  readonly body: (call: Call) => Promise<Value>
  readonly clock: Clock
  readonly deadlineMs: number
  readonly signal: AbortSignal | undefined
  readonly end: (how: End) => void
}

/** A call under its permit. What its body leaves running past the deadline has no permit any more. */
async function attempt<Value>({ body, clock, deadlineMs, signal, end }: Attempt<Value>): Promise<Value> {
  const sentAtMs = clock.monotonicMs()
  const late = new Retry('unavailable', `A call took longer than ${deadlineMs} ms`)
  const over = new AbortController()
  let [firstMs, failure]: [number | undefined, Failure | undefined] = [undefined, undefined]
  const call: Call = {
    signal: signal ? AbortSignal.any([signal, over.signal]) : over.signal,
    firstToken: () => void (firstMs ??= clock.monotonicMs() - sentAtMs),
    response: (status, headers, body) => {
      if (status >= 400) failure ??= failureOf(replyOf(status, headers, body), clock.now())
    },
  }
  try {
    const value = await within(clock, deadlineMs, start(body, call), late)
    const wholeMs = clock.monotonicMs() - sentAtMs
    end({ sentAtMs, ...(failure ?? { kind: 'ok', firstMs, wholeMs }) })
    return value
  } catch (error) {
    over.abort(late)
    end({ sentAtMs, ...(failure ?? thrown(error)) })
    throw error
  }

  function thrown(error: unknown): Failure {
    if (signal?.aborted) return { kind: 'client' } // our own cancel
    if (error === late) return { kind: firstMs === undefined ? 'timeout' : 'client' } // it spoke, at length
    return failureIn(error, clock.now())
  }
}

async function start<Value>(body: (call: Call) => Promise<Value>, call: Call): Promise<Value> {
  return body(call)
}
