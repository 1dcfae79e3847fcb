// Calls one downstream from one pod. A call is sent under a permit. One synchronous step checks everything and grants the
// permit (`gate`). The permit comes back once, however the call ends (`send`). The limiter never retries: the caller decides
// what to do with a call that was not sent or has failed. In `observe` mode calls pass at once; everything else is the same.
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
  /** How many calls this pod may have in flight, as learnt so far. */
  readonly limit: number
  /** What the fleet allows this pod, and the row that says so. */
  readonly share: number
  readonly gen: number
  readonly held: number
  readonly waiting: number
  /** Nothing is sent until then. Undefined if there is no pause. */
  readonly pausedUntil: Date | undefined
}
export type Limiter = Reporter & {
  run<Value>(body: (call: Call) => Promise<Value>, patience: PermitWish): Promise<Value>
  readonly standing: () => Standing
  /** For how long there has been no call and no waiter. 0 during a pause, so that the pause is not forgotten. */
  readonly idleMs: () => number
  /** How many more attempts may begin. `coming` attempts have begun and not asked for a permit yet. */
  readonly roomFor: (coming: number) => number
  /** Tells the limiter whether the queue had as many tasks as there was room for. */
  readonly claimed: (hasMore: boolean) => void
}
export type PermitWish = {
  /** How long to wait for a permit. */
  readonly maxWaitMs: number
  readonly deadlineMs: number
  readonly signal?: AbortSignal | undefined
  /** Ends the wait but not the call. */
  readonly waitSignal?: AbortSignal | undefined
  /**
   * The caller is a task from the queue and holds a slot while it waits. So only as many of these wait as can go next. A
   * refused call is thrown as a `Retry` that says when to try again.
   */
  readonly isQueued?: boolean | undefined
  /** A caller waits for the answer. The call is not held back before the first sign of a limit. */
  readonly isAwaited?: boolean | undefined
}
type Deps = {
  readonly key: string
  readonly clock: Clock
  readonly random: Random
  readonly rules: Rules
  readonly mode: 'enforce' | 'observe'
  readonly meter: Meter
  /** Called when there is news to report to the leader soon. */
  readonly onNews: () => void
}

const MOST_WAITING = 10_000

export function createLimiter(deps: Deps): Limiter {
  const { key, clock, random, mode } = deps
  const gate = createGate(deps)
  let usedMs = clock.monotonicMs()
  let hasMore = false
  const queued = { waiting: 0 } // how many of the waiters are tasks from the queue
  let lastMs = 0 // when the call that was rejected last may try again
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
      const behind = others > 0 && coming + queued.waiting === 0 ? 1 : 0 // other callers must not block the queue forever
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

/** The returned function resolves once it has taken a permit. */
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
    clock.sleep(maxWaitMs, over.signal).then(leave, () => undefined) // aborted: the wait is over
    const isIn = await entered
    over.abort()
    if (isIn) return true
    gate.admit() // the alarm may have been set for this waiter alone
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
  /** Makes the error to throw for a refused call. */
  readonly asRefused: (error: unknown) => unknown
}

/** Sends a call and returns its permit once: when the body returns, throws or reaches its deadline (T5). A body that runs on
 *  past the deadline has no permit any more. */
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
    if (signal?.aborted) return { kind: 'client' } // we cancelled it
    if (error === late) return { kind: told.firstMs === undefined ? 'timeout' : 'client' } // it had begun to answer
    return failureIn(error, clock.now())
  }
}

async function start<Value>(body: (call: Call) => Promise<Value>, call: Call): Promise<Value> {
  return body(call)
}
