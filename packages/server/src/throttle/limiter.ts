// One downstream, as one pod calls it. A call is sent under a permit, which one synchronous step grants after the whole test,
// and which comes back once, however the call ends: by its return, its error, its abort, or its deadline (T5). Nothing is
// tried again here: what was not sent, or failed, is the caller's to put off.
import { Retry } from '../errors.ts'
import { within, type Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { boundOf, renewed, type Offer } from './lease.ts'
import { createLine } from './line.ts'
import { counted, emptyTally, holding, told, type Load } from './load.ts'
import { failureIn, failureOf, type Failure } from './outcome.ts'
import { replyOf } from './reply.ts'
import {
  capOf,
  ended,
  hushed,
  leased,
  maySend,
  opened,
  reopensAtMs,
  sent,
  shutUntilMs,
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
  /** What the fleet lets this pod have, and the row that says so. */
  readonly share: number
  readonly gen: number
  readonly held: number
  readonly waiting: number
  /** Until when nothing is sent, if that lies ahead. */
  readonly pausedUntil: Date | undefined
}
export type Limiter = {
  run<Value>(body: (call: Call) => Promise<Value>, options: Patience): Promise<Value>
  readonly standing: () => Standing
  /** For how long nobody has called, or waited to. */
  readonly idleMs: () => number
  /** What happened since it was told last. */
  readonly tell: () => Report
  /** What was read; undefined: there is no row. */
  readonly hear: (offer: Heard | undefined, sentMs: number) => void
}
/** `wideMs`: for so long all pods are to pause. */
export type Report = { readonly load: Load; readonly wideMs: number | undefined }
export type Heard = Offer & { readonly pauseMs: number }
type Patience = { readonly maxWaitMs: number; readonly signal?: AbortSignal | undefined }
type Deps = {
  readonly key: string
  readonly clock: Clock
  readonly random: Random
  readonly rules: Rules
  readonly deadlineMs: number
  /** There is something to tell, better soon. */
  readonly onNews: () => void
}

const MOST_WAITING = 10_000

export function createLimiter({ key, clock, random, rules, deadlineMs, onNews }: Deps): Limiter {
  let window: Window = opened(rules)
  let tally = emptyTally(clock.monotonicMs())
  let usedMs = clock.monotonicMs()
  let alarm: AbortController | undefined
  const line = createLine({
    mayEnter: () => maySend(window, clock.monotonicMs()),
    enter: () => {
      const nowMs = clock.monotonicMs()
      window = sent(window, nowMs)
      tally = holding(tally, window.held, nowMs)
    },
  })
  const move = () => {
    line.move()
    setAlarm()
  }
  const setAlarm = () => {
    alarm?.abort()
    const nowMs = clock.monotonicMs()
    const shutMs = shutUntilMs(window, nowMs) - nowMs
    if (line.size === 0 || shutMs <= 0) return
    alarm = new AbortController()
    clock.sleep(Math.ceil(shutMs), alarm.signal).then(move, () => undefined) // aborted: it is set anew
  }
  const end = (how: End) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit(), rules }
    const { wideUntilMs } = window
    window = ended(window, how, moment).window
    tally = counted(holding(tally, window.held, moment.nowMs), how, moment)
    usedMs = moment.nowMs
    if (window.wideUntilMs > wideUntilMs) onNews()
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
    usedMs = clock.monotonicMs()
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
      const nowMs = clock.monotonicMs()
      const pauseMs = window.pauseUntilMs - nowMs
      return {
        limit: capOf(window, nowMs),
        share: boundOf(window.lease, nowMs),
        gen: window.lease.gen,
        held: window.held,
        waiting: line.size,
        pausedUntil: pauseMs > 0 ? new Date(clock.now() + pauseMs) : undefined,
      }
    },
    idleMs: () => (window.held + line.size > 0 ? 0 : clock.monotonicMs() - usedMs),
    tell: () => {
      const nowMs = clock.monotonicMs()
      const next = told(tally, { nowMs, waiting: line.size, most: rules.most, gen: window.lease.gen })
      tally = next.tally
      const wideMs = window.wideUntilMs - nowMs
      return { load: next.load, wideMs: wideMs > 0 ? wideMs : undefined }
    },
    hear: (offer, sentMs) => {
      const moment = { nowMs: clock.monotonicMs(), chance: random.unit() }
      const before = boundOf(window.lease, moment.nowMs)
      window = leased(window, renewed(window.lease, offer, { ...rules, sentMs }), moment.nowMs)
      if (offer && offer.pauseMs > 0) window = hushed(window, offer.pauseMs, moment)
      if (boundOf(window.lease, moment.nowMs) < before) onNews() // what it gave up goes to others once they hear of it
      move()
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
