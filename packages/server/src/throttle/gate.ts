// Where calls of one downstream leave a pod: what was learnt (`window`), what happened since it was told (`load`), and who
// waits (`waiters`), which change together, in one synchronous step an event.
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import { createWaiters, type Waiters } from '../lib/waiters.ts'
import { boundOf, renewed, type Offer } from './lease.ts'
import { counted, emptyTally, holding, told, type Load } from './load.ts'
import type { Meter } from './meter.ts'
import {
  capOf,
  ended,
  hushed,
  leased,
  maySend,
  opened,
  opensAtMs,
  sent,
  type CallEnd,
  type Rules,
  type Window,
} from './window.ts'

export type Gate = {
  readonly waiters: Pick<Waiters, 'size' | 'tryEnter' | 'join'>
  readonly window: () => Window
  /** Goes through although there is no room. */
  readonly force: () => void
  /** A caller began to wait, or left. */
  readonly move: () => void
  /** A call has ended: its permit is back. */
  readonly end: (how: CallEnd) => void
  /** What happened since it was told last; `hasMore`: the queue has more for it than it had room for. */
  readonly tell: (hasMore: boolean) => GateReport
  /** From now on nobody goes through, if nobody is in flight or waits: its share is free once that is told. */
  readonly close: () => void
  readonly isClosed: () => boolean
  /** What was read; undefined: there is no row. */
  readonly hear: (offer: HeardOffer | undefined, sentMs: number) => void
}
/** `wideMs`: for so long all pods are to pause. */
export type GateReport = { readonly load: Load; readonly wideMs: number | undefined }
export type HeardOffer = Offer & { readonly pauseMs: number }
type Deps = {
  readonly clock: Clock
  readonly random: Random
  readonly rules: Rules
  readonly meter: Meter
  /** There is something to tell, better soon. */
  readonly onNews: () => void
}

const MORE = 0.25 // of what it may have in flight

export function createGate({ clock, random, rules, meter, onNews }: Deps): Gate {
  let window: Window = opened(rules)
  let tally = emptyTally(clock.monotonicMs())
  let alarm: AbortController | undefined
  let isClosed = false
  const force = () => {
    const nowMs = clock.monotonicMs()
    window = sent(window, nowMs)
    tally = holding(tally, window.held, nowMs)
  }
  const waiters = createWaiters({
    mayEnter: (isAwaited) => !isClosed && maySend(window, clock.monotonicMs(), isAwaited),
    enter: force,
  })
  const move = () => {
    waiters.admit()
    setAlarm()
  }
  const setAlarm = () => {
    alarm?.abort()
    const nowMs = clock.monotonicMs()
    const shutMs = opensAtMs(window, nowMs) - nowMs
    if (waiters.size === 0 || shutMs <= 0) return
    alarm = new AbortController()
    clock.sleep(Math.ceil(shutMs), alarm.signal).then(move, () => undefined) // aborted: it is set anew
  }
  const end = (how: CallEnd) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit(), rules }
    const { wideUntilMs } = window
    const after = ended(window, how, moment)
    window = after.window
    tally = counted(holding(tally, window.held, moment.nowMs), how, moment)
    meter.ended(how.kind, after.cut)
    if (window.wideUntilMs > wideUntilMs) onNews()
    move()
  }
  const tell = (hasMore: boolean) => {
    const nowMs = clock.monotonicMs()
    const more = hasMore ? Math.max(1, Math.ceil(MORE * capOf(window, nowMs))) : 0
    const waiting = waiters.size + more
    const most = isClosed ? 0 : rules.most
    const next = told(tally, { nowMs, waiting, most, gen: window.lease.gen })
    tally = next.tally
    const wideMs = window.wideUntilMs - nowMs
    return { load: next.load, wideMs: wideMs > 0 ? wideMs : undefined }
  }
  const hear = (offer: HeardOffer | undefined, sentMs: number) => {
    const moment = { nowMs: clock.monotonicMs(), chance: random.unit() }
    const before = boundOf(window.lease, moment.nowMs)
    window = leased(window, renewed(window.lease, offer, { ...rules, sentMs }), moment.nowMs)
    if (offer && offer.pauseMs > 0) window = hushed(window, offer.pauseMs, moment)
    if (boundOf(window.lease, moment.nowMs) < before) onNews() // what it gave up goes to others once they hear of it
    move()
  }
  const close = () => void (isClosed = window.held + waiters.size === 0)
  return { waiters, window: () => window, force, move, end, tell, hear, close, isClosed: () => isClosed }
}
