// Admits calls of one downstream on one pod. The gate holds the learnt limit (`window`), the counts since the last report
// (`tally`) and the waiting calls (`waiters`). Each event changes all three in one synchronous step.
import type { Clock } from '../../lib/clock.ts'
import type { Random } from '../../lib/random.ts'
import { createWaiters, type Waiters } from '../../lib/waiters.ts'
import { boundOf, renewLease, type HeardOffer } from '../fleet/lease.ts'
import type { Report, Reporter } from '../fleet/rounds.ts'
import { countEnd, emptyTally, setHeld, takeLoad } from './tally.ts'
import type { FailureKind } from '../reply/outcome.ts'
import {
  capOf,
  recordEnd,
  pauseFor,
  applyLease,
  maySend,
  openWindow,
  opensAtMs,
  recordSent,
  type CallEnd,
  type CutReason,
  type Rules,
  type Window,
} from './window.ts'

/** How a request for a permit ended. */
type Asked = 'at_once' | 'waited' | 'none' | 'would_wait'
export type Meter = {
  readonly asked: (how: Asked, waitedMs: number) => void
  readonly ended: (kind: 'ok' | FailureKind, cut: CutReason | undefined) => void
}
export type Gate = Pick<Reporter, 'applyOffer' | 'close'> & {
  readonly waiters: Pick<Waiters, 'size' | 'tryEnter' | 'join'>
  readonly window: () => Window
  /** Lets a call through although there is no room. */
  readonly force: () => void
  /** Checks the waiting calls again, after one has joined or left. */
  readonly admit: () => void
  /** Records the end of a call and takes its permit back. */
  readonly end: (how: CallEnd) => void
  /** `hasMore`: the queue has more tasks for this downstream than there was room for. */
  readonly takeReport: (hasMore: boolean) => Report
  readonly isClosed: () => boolean
}
type Deps = {
  readonly clock: Clock
  readonly random: Random
  readonly rules: Rules
  readonly meter: Meter
  /** Called when there is news to report to the leader soon. */
  readonly onNews: () => void
}

const MORE = 0.25 // if the queue has more tasks, this part of the limit counts as waiting calls

export function createGate({ clock, random, rules, meter, onNews }: Deps): Gate {
  let window: Window = openWindow(rules)
  let tally = emptyTally(clock.monotonicMs())
  let alarm: AbortController | undefined
  let isClosed = false
  const force = () => {
    const nowMs = clock.monotonicMs()
    window = recordSent(window, nowMs)
    tally = setHeld(tally, window.held, nowMs)
  }
  const waiters = createWaiters({
    mayEnter: (isAwaited) => !isClosed && maySend(window, clock.monotonicMs(), isAwaited),
    enter: force,
  })
  const admit = () => {
    waiters.admit()
    setAlarm()
  }
  const setAlarm = () => {
    alarm?.abort()
    const nowMs = clock.monotonicMs()
    const shutMs = opensAtMs(window, nowMs) - nowMs
    if (waiters.size === 0 || shutMs <= 0) return
    alarm = new AbortController()
    clock.sleep(Math.ceil(shutMs), alarm.signal).then(admit, () => undefined) // aborted: a new alarm replaces it
  }
  const end = (how: CallEnd) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit(), rules }
    const { wideUntilMs } = window
    const after = recordEnd(window, how, moment)
    window = after.window
    tally = countEnd(setHeld(tally, window.held, moment.nowMs), how, moment)
    meter.ended(how.kind, after.cut)
    if (window.wideUntilMs > wideUntilMs) onNews()
    admit()
  }
  const takeReport = (hasMore: boolean) => {
    const nowMs = clock.monotonicMs()
    const more = hasMore ? Math.max(1, Math.ceil(MORE * capOf(window, nowMs))) : 0
    const waiting = waiters.size + more
    const most = isClosed ? 0 : rules.most
    const next = takeLoad(tally, { nowMs, waiting, most, gen: window.lease.gen })
    tally = next.tally
    const wideMs = window.wideUntilMs - nowMs
    return { load: next.load, wideMs: wideMs > 0 ? wideMs : undefined }
  }
  const applyOffer = (offer: HeardOffer | undefined, sentMs: number) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit() }
    const before = boundOf(window.lease, moment.nowMs)
    window = applyLease(window, renewLease(window.lease, offer, { ...rules, sentMs }), moment.nowMs)
    if (offer && offer.pauseMs > 0) window = pauseFor(window, offer.pauseMs, moment)
    if (boundOf(window.lease, moment.nowMs) < before) onNews() // the leader gives the freed part away once it knows
    admit()
  }
  const close = () => void (isClosed = window.held + waiters.size === 0)
  return {
    waiters,
    window: () => window,
    force,
    admit,
    end,
    takeReport,
    applyOffer,
    close,
    isClosed: () => isClosed,
  }
}
