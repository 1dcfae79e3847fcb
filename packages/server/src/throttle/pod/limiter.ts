// One downstream, as one pod calls it. A call is sent under a permit, which one synchronous step grants after the whole test
// (`gate`), and which comes back once, however the call ends (`call`). Nothing is tried again here: what was not sent, or
// failed, is the caller's to put off. Who only observes goes through at once, and everything else is the same.
import { Retry } from '../../errors.ts'
import { within, type Clock } from '../../lib/clock.ts'
import type { Random } from '../../lib/random.ts'
import type { Call } from '../../task/runner.ts'
import { failureIn, failureOf, type CallFailure } from '../reply/outcome.ts'
import { replyOf } from '../reply/reply.ts'
import { createGate, type Gate } from './gate.ts'
import { boundOf } from '../fleet/lease.ts'
import type { Reporter } from '../fleet/rounds.ts'
import type { Meter } from './gate.ts'
import { capOf, retryAtMs, type CallEnd, type Rules } from './window.ts'

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
export type Limiter = Reporter & {
  run<Value>(body: (call: Call) => Promise<Value>, patience: PermitWish): Promise<Value>
  readonly standing: () => Standing
  /** For how long nobody has called, or waited to; nothing inside a pause, which is not forgotten. */
  readonly idleMs: () => number
  /** How many more attempts may begin, beside so many that have, and have not asked for a permit yet. */
  readonly roomFor: (coming: number) => number
  /** Whether the queue had as many as there was room for. */
  readonly claimed: (hasMore: boolean) => void
}
export type PermitWish = {
  /** For a permit. */
  readonly maxWaitMs: number
  readonly deadlineMs: number
  readonly signal?: AbortSignal | undefined
  /** Ends the wait, and not the call. */
  readonly waitSignal?: AbortSignal | undefined
  /**
   * The caller stands in a queue, and holds a slot while it waits: no more of those wait than go next. What was refused is
   * thrown as a `Retry` that says when to come again, too.
   */
  readonly isQueued?: boolean | undefined
  /** Somebody waits for the answer: it is not held back before there was a sign of a limit. */
  readonly isAwaited?: boolean | undefined
}
type Deps = {
  readonly key: string
  readonly clock: Clock
  readonly random: Random
  readonly rules: Rules
  readonly mode: 'enforce' | 'observe'
  readonly meter: Meter
  /** There is something to tell, better soon. */
  readonly onNews: () => void
}

const MOST_WAITING = 10_000

export function createLimiter(deps: Deps): Limiter {
  const { key, clock, random, mode } = deps
  const gate = createGate(deps)
  let usedMs = clock.monotonicMs()
  let hasMore = false
  const queued = { waiting: 0 } // of those in line, who stand in a queue, too
  let lastMs = 0 // who was turned away last comes again then
  const use = () => void (usedMs = clock.monotonicMs())
  const refusal = (what: string, cause?: unknown) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit() }
    lastMs = retryAtMs(gate.window(), lastMs, moment)
    const at = new Date(clock.now() + lastMs - moment.nowMs)
    return new Retry('rate_limited', `${key}: ${what}`, { at, cause, fields: { key } })
  }
  const admit = createAdmission({ ...deps, gate, queued, refusal })
  return {
    run: async (body, { deadlineMs, isQueued, ...patience }) => {
      use()
      await admit({ ...patience, isQueued })
      const end: Gate['end'] = (how) => {
        use()
        gate.end(how)
      }
      const asRefused = (error: unknown) => (isQueued ? refusal(`refused: ${textOf(error)}`, error) : error)
      return send({ body, clock, deadlineMs, signal: patience.signal, end, asRefused })
    },
    standing: () => {
      const [window, nowMs] = [gate.window(), clock.monotonicMs()]
      const pauseMs = window.pauseUntilMs - nowMs
      return {
        limit: capOf(window, nowMs),
        share: boundOf(window.lease, nowMs),
        gen: window.lease.gen,
        held: window.held,
        waiting: gate.waiters.size,
        pausedUntil: pauseMs > 0 ? new Date(clock.now() + pauseMs) : undefined,
      }
    },
    idleMs: () => {
      const [{ held, pauseUntilMs }, nowMs] = [gate.window(), clock.monotonicMs()]
      return held + gate.waiters.size > 0 || nowMs < pauseUntilMs ? 0 : nowMs - usedMs
    },
    roomFor: (coming) => {
      const [window, nowMs] = [gate.window(), clock.monotonicMs()]
      if (mode === 'observe') return Number.POSITIVE_INFINITY
      const cap = capOf(window, nowMs)
      if (nowMs < window.pauseUntilMs || cap === 0) return 0
      const others = gate.waiters.size - queued.waiting
      const behind = others > 0 && coming + queued.waiting === 0 ? 1 : 0 // they must not keep the queue out for ever
      return Math.max(behind, cap - (coming + window.held + gate.waiters.size))
    },
    claimed: (isFull) => void (hasMore = isFull),
    takeReport: () => gate.takeReport(hasMore),
    applyOffer: gate.applyOffer,
    close: gate.close,
  }
}

type Door = Pick<Deps, 'clock' | 'mode' | 'meter' | 'rules'> & {
  readonly gate: Gate
  readonly queued: { waiting: number }
  readonly refusal: (what: string) => Retry
}

/** Resolves with a permit taken. */
function createAdmission({ clock, mode, meter, rules, gate, queued, refusal }: Door) {
  const { waiters } = gate
  const none = (why: string) => {
    meter.asked('none', 0)
    return refusal(`${why}; nothing was sent`)
  }
  const wait = async ({ maxWaitMs, signal, waitSignal, isAwaited }: Omit<PermitWish, 'deadlineMs'>) => {
    const { entered, leave } = waiters.join(isAwaited)
    gate.admit()
    const over = new AbortController()
    for (const one of [signal, waitSignal]) one?.addEventListener('abort', leave, { signal: over.signal })
    clock.sleep(maxWaitMs, over.signal).then(leave, () => undefined) // aborted: it has its answer
    const isIn = await entered
    over.abort()
    if (isIn) return true
    gate.admit() // the alarm may have been for this one alone
    signal?.throwIfAborted()
    waitSignal?.throwIfAborted()
    return false
  }
  return async (patience: Omit<PermitWish, 'deadlineMs'>): Promise<void> => {
    patience.signal?.throwIfAborted()
    patience.waitSignal?.throwIfAborted()
    if (waiters.tryEnter(patience.isAwaited)) return meter.asked('at_once', 0)
    if (mode === 'observe') {
      gate.force()
      return meter.asked('would_wait', 0)
    }
    if (gate.isClosed()) throw new Retry('unavailable', 'This pod stops; nothing was sent')
    const startMs = clock.monotonicMs()
    if (gate.window().pauseUntilMs > startMs + patience.maxWaitMs) throw none('it pauses for longer')
    const { isQueued } = patience
    const nextOnes = gate.window().isStarting ? rules.most : Math.max(1, capOf(gate.window(), startMs))
    const most = isQueued ? nextOnes : MOST_WAITING
    if ((isQueued ? queued.waiting : waiters.size) >= most) throw none(`${most} calls wait already`)
    if (isQueued) queued.waiting += 1
    const isIn = await wait(patience).finally(() => {
      if (isQueued) queued.waiting -= 1
    })
    if (isIn) return meter.asked('waited', clock.monotonicMs() - startMs)
    throw none(`no permit within ${patience.maxWaitMs} ms`)
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : 'the call'
}

type Sent<Value> = {
  readonly body: (call: Call) => Promise<Value>
  readonly clock: Clock
  readonly deadlineMs: number
  readonly signal: AbortSignal | undefined
  readonly end: (how: CallEnd) => void
  /** What is thrown if it was refused. */
  readonly asRefused: (error: unknown) => unknown
}

/** Sends a call, and gives its permit back once: by its return, its error, or its deadline (T5). A body that runs on past the
 *  deadline has no permit any more. */
export async function send<Value>(sent: Sent<Value>): Promise<Value> {
  const { body, clock, deadlineMs, signal, end } = sent
  const sentAtMs = clock.monotonicMs()
  const late = new Retry('unavailable', `A call took longer than ${deadlineMs} ms`)
  const over = new AbortController()
  const told: { firstMs?: number; failure?: CallFailure } = {}
  const call: Call = {
    signal: signal ? AbortSignal.any([signal, over.signal]) : over.signal,
    firstToken: () => void (told.firstMs ??= clock.monotonicMs() - sentAtMs),
    response: (status, headers, text) => {
      if (status >= 400) told.failure ??= failureOf(replyOf(status, headers, text), clock.now())
    },
  }
  try {
    const value = await within(clock, deadlineMs, start(body, call), late)
    const wholeMs = clock.monotonicMs() - sentAtMs
    end({ sentAtMs, ...(told.failure ?? { kind: 'ok', firstMs: told.firstMs, wholeMs }) })
    return value
  } catch (error) {
    over.abort(late)
    const how = told.failure && told.failure.kind !== 'client' ? told.failure : thrown(error)
    end({ sentAtMs, ...how })
    throw how.kind === 'refused' ? sent.asRefused(error) : error
  }

  function thrown(error: unknown): CallFailure {
    if (signal?.aborted) return { kind: 'client' } // our own cancel
    if (error === late) return { kind: told.firstMs === undefined ? 'timeout' : 'client' } // it spoke, at length
    return failureIn(error, clock.now())
  }
}

async function start<Value>(body: (call: Call) => Promise<Value>, call: Call): Promise<Value> {
  return body(call)
}
