// How many calls one pod may have in flight at one downstream, learnt from how its calls end. Pure functions of
// (window, event, now, chance). At most `cap` calls are in flight: cap = max(1, ⌊min(limit, bound)⌋), or 0 if the pod's share
// is 0. No call begins during a pause. The bound is what the fleet allows this pod (`lease`).
//
// A window is starting until the first sign of a limit, here or in the fleet. While it starts, the limit doubles every 200 ms
// from when it was first used up: from 8 to 256 in a second. Only the bound holds back calls that somebody waits for.
//
//   a call ends   when                                             then
//   ok            in use (held ≥ .8 cap), no hold, latency < 1.3,  limit + 1/limit: + 1 a round trip
//                 not starting
//   ok            a latency window closed at > 1.6                 limit × .95; starting ends, at .95 of the calls in flight
//   refused       sent after the last cut                          cut × .7, starting ends, hold for max(2 s, first token);
//                                                                  × .85 under a share, because the leader cuts, too
//   refused       sent before the first cut, while no call sent    limit ≤ .97 of the other calls in flight: what remains of
//                 after that cut has ended                         the first burst is what the downstream accepts
//   timeout       sent after the last cut                          cut × .85, the rest as for refused
//   server        > 20 % of ≥ 10 ends in 30 s, sent after the cut  cut × .7, the rest as for refused
//   client        always                                           nothing
//   refused, timeout, server     with a wait                       pause for the wait and up to a tenth longer
//   refused, timeout             at limit 1, without a wait        pause for 1, 2, 4 … 60 s and up to a quarter longer
//   refused, timeout, server     with a wait of 10 s or more       all pods must pause: `wideUntilMs`
//   ok            not starting                                     limit ≤ max(its start, twice the most calls in flight at
//                                                                  once in the last minute)
//   (a lease is read)            a capacity is known               starting ends, at the calls in flight or the grown limit
//   (a lease is read)            not starting                      limit ≤ bound
//   (a lease is read)            a capacity is known, no refusals  limit = bound
//                                on any pod, no cut here for the
//                                time of three calls
//
// A cut starts from the calls really in flight. Calls sent before a cut do not cut again (T2): one overload counts once.
import { addSample, UNTIMED, type Latency } from './latency.ts'
import { medianOf } from '../../lib/median.ts'
import { boundOf, isValid, UNREAD, type Lease } from '../fleet/lease.ts'
import type { CallFailure } from '../reply/outcome.ts'

export type Rules = {
  /** The limit at the start. */
  readonly start: number
  /** The highest limit. */
  readonly most: number
}
export type Window = {
  /** As learnt, with its fraction. */
  readonly limit: number
  /** Bounds the limit, whatever was learnt. */
  readonly lease: Lease
  readonly isStarting: boolean
  /** While starting: since when the limit doubles. Undefined until it is first used up. */
  readonly growsSinceMs: number | undefined
  /** Calls of the first burst are still being refused. */
  readonly isSettling: boolean
  readonly held: number
  readonly cutAtMs: number
  readonly holdUntilMs: number
  readonly pauseUntilMs: number
  /** The end of a wait so long that it applies to all pods, exactly as the provider asked. */
  readonly wideUntilMs: number
  readonly latency: Latency
  /** Of the last successes: time to the first token, and of the whole call. */
  readonly firstsMs: readonly number[]
  readonly wholesMs: readonly number[]
  /** The last minute, newest last. */
  readonly spans: readonly Span[]
  /** Cuts at limit 1 since the last success, without a wait from the provider. */
  readonly lowest: number
}
type Span = {
  readonly number: number
  readonly peak: number
  readonly ended: number
  readonly ill: number
}
type Ok = { readonly kind: 'ok'; readonly firstMs?: number | undefined; readonly wholeMs: number }
export type CallEnd = (Ok | CallFailure) & { readonly sentAtMs: number }
type Moment = {
  readonly nowMs: number
  /** Random, from 0 to 1. */
  readonly chance: number
}
export type CutReason = 'refused' | 'timeout' | 'server' | 'latency'
type Taught = Window & { readonly cut?: CutReason | undefined }

const SPAN = { ms: 5_000, kept: 12, ill: 6 }
const REMEMBERED = 100
const IN_USE = 0.8
const SLOW = { hold: 1.3, shrink: 1.6, by: 0.95 }
const CUT = { refused: 0.7, shared: 0.85, timeout: 0.85, server: 0.7, holdMs: 2_000 }
const SETTLED = 0.97
const DOUBLES_MS = 200 // refusals usually arrive sooner; with 150 the first burst had twice as many
const ILL = { part: 0.2, least: 10 }
const LOWEST = { firstMs: 1_000, mostMs: 60_000, spread: 0.25 }
const WAIT_SPREAD = 0.1
const WIDE_MS = 10_000
const CALM_CALLS = 3
const AGAIN = { leastMs: 1_000, aheadMs: 30_000 }

export function openWindow({ start, most }: Rules): Window {
  return {
    limit: Math.min(start, most),
    lease: UNREAD,
    isStarting: true,
    growsSinceMs: undefined,
    isSettling: false,
    held: 0,
    cutAtMs: Number.NEGATIVE_INFINITY,
    holdUntilMs: Number.NEGATIVE_INFINITY,
    pauseUntilMs: Number.NEGATIVE_INFINITY,
    wideUntilMs: Number.NEGATIVE_INFINITY,
    latency: UNTIMED,
    firstsMs: [],
    wholesMs: [],
    spans: [],
    lowest: 0,
  }
}

/** `isAwaited`: for calls that somebody waits for. */
export function capOf(window: Window, nowMs: number, isAwaited = false): number {
  const bound = boundOf(window.lease, nowMs)
  if (bound === 0) return 0
  const isFree = isAwaited && window.isStarting
  return Math.max(1, Math.floor(isFree ? bound : Math.min(limitOf(window, nowMs), bound)))
}

export function maySend(window: Window, nowMs: number, isAwaited = false): boolean {
  return window.held < capOf(window, nowMs, isAwaited) && nowMs >= window.pauseUntilMs
}

/** When a waiter may go without any event but a new lease. In the past if a call may be sent now. */
export function opensAtMs(window: Window, nowMs: number): number {
  const { lease, pauseUntilMs, isStarting, growsSinceMs } = window
  if (boundOf(lease, nowMs) === 0) return Math.max(lease.untilMs, pauseUntilMs)
  if (nowMs < pauseUntilMs || !isStarting || growsSinceMs === undefined) return pauseUntilMs
  if (limitOf(window, nowMs) >= boundOf(lease, nowMs)) return pauseUntilMs
  return growsSinceMs + (doublingsIn(growsSinceMs, nowMs) + 1) * DOUBLES_MS
}

export function recordSent(window: Window, nowMs: number): Window {
  const held = window.held + 1
  const isUsedUp = window.isStarting && held >= Math.floor(limitOf(window, nowMs))
  const growsSinceMs = window.growsSinceMs ?? (isUsedUp ? nowMs : undefined)
  return { ...window, held, growsSinceMs, spans: noteInSpans(window.spans, nowMs, { peak: held }) }
}

function limitOf({ limit, isStarting, growsSinceMs }: Window, nowMs: number): number {
  if (!isStarting || growsSinceMs === undefined) return limit
  return limit * 2 ** doublingsIn(growsSinceMs, nowMs)
}

function doublingsIn(sinceMs: number, nowMs: number): number {
  return Math.floor((nowMs - sinceMs) / DOUBLES_MS)
}

/** Applies what the fleet allows this pod from now on. */
export function applyLease(window: Window, lease: Lease, nowMs: number): Window {
  const bound = boundOf(lease, nowMs)
  const isCalm = nowMs - window.cutAtMs >= CALM_CALLS * medianOf(window.wholesMs)
  const pulls = lease.isLearnt && lease.isClean && isCalm && isValid(lease, nowMs)
  if (window.isStarting && !lease.isLearnt) return { ...window, lease }
  const limit = window.isStarting ? Math.max(window.held, limitOf(window, nowMs)) : window.limit
  return { ...window, lease, limit: Math.max(1, pulls ? bound : Math.min(limit, bound)), isStarting: false }
}

/** Applies a pause that another pod was asked for and that is meant for all pods. */
export function pauseFor(window: Window, pauseMs: number, { nowMs, chance }: Moment): Window {
  if (nowMs + pauseMs <= window.pauseUntilMs) return window // already known: each round must not lengthen it again
  return extendPause(window, nowMs + pauseMs * (1 + WAIT_SPREAD * chance))
}

/** Learns from the end of a call and takes its permit back. `cut` is the reason of a cut, if there was one. */
export function recordEnd(
  window: Window,
  end: CallEnd,
  { rules, ...moment }: Moment & { readonly rules: Rules },
): { readonly window: Window; readonly cut?: CutReason | undefined } {
  const { nowMs } = moment
  const counted = end.sentAtMs >= window.cutAtMs ? 1 : 0
  const ill = end.kind === 'server' ? counted : 0
  const seen = {
    ...window,
    spans: noteInSpans(window.spans, nowMs, { peak: window.held, ended: counted, ill }),
  }
  const { cut, ...taught } =
    end.kind === 'ok' ? learnFromSuccess(seen, end, { nowMs, rules }) : learnFromFailure(seen, end, moment)
  // A call sent after the first cut shows how much the downstream accepts now.
  const isSettling = taught.isSettling && !(window.isSettling && counted === 1)
  return { window: { ...taught, isSettling, held: taught.held - 1 }, cut }
}

/**
 * Estimates when a caller that is rejected now should ask again. Callers rejected one after another get times that are as far
 * apart as calls end here.
 */
export function retryAtMs(window: Window, lastMs: number, { nowMs, chance }: Moment): number {
  const usualMs = Math.max(AGAIN.leastMs, medianOf(window.wholesMs))
  const openMs = window.pauseUntilMs > nowMs ? window.pauseUntilMs : nowMs + usualMs * (1 + chance / 2)
  const gapMs = usualMs / Math.max(1, capOf(window, nowMs))
  return Math.min(Math.max(openMs, lastMs + gapMs), openMs + AGAIN.aheadMs)
}

function learnFromSuccess(
  window: Window,
  { firstMs, wholeMs }: Ok,
  { nowMs, rules }: { readonly nowMs: number; readonly rules: Rules },
): Taught {
  const { isClosed, ...latency } =
    firstMs === undefined ? { ...window.latency, isClosed: false } : addSample(window.latency, firstMs, nowMs)
  const { isStarting, held } = window
  const slow = isClosed && latency.ratio > SLOW.shrink
  const inUse = held >= IN_USE * capOf(window, nowMs)
  const mayGrow = inUse && nowMs >= window.holdUntilMs && latency.ratio < SLOW.hold
  const grown = slow ? SLOW.by * window.limit : window.limit + (mayGrow ? 1 / window.limit : 0)
  const peak = Math.max(...window.spans.map((span) => span.peak))
  const learnt = Math.min(grown, boundOf(window.lease, nowMs), Math.max(rules.start, 2 * peak))
  return {
    ...window,
    latency,
    isStarting: isStarting && !slow,
    limit: isStarting ? (slow ? Math.max(1, SLOW.by * held) : window.limit) : Math.max(1, learnt),
    firstsMs: firstMs === undefined ? window.firstsMs : [...window.firstsMs, firstMs].slice(-REMEMBERED),
    wholesMs: [...window.wholesMs, wholeMs].slice(-REMEMBERED),
    lowest: 0,
    cut: slow ? 'latency' : undefined,
  }
}

function learnFromFailure(
  window: Window,
  { kind, waitMs, sentAtMs }: CallFailure & { readonly sentAtMs: number },
  { nowMs, chance }: Moment,
): Taught {
  if (kind === 'client') return window
  const counts = sentAtMs >= window.cutAtMs && (kind !== 'server' || isIll(window.spans, nowMs))
  const isOfFirst = kind === 'refused' && window.isSettling && sentAtMs < window.cutAtMs
  const cut = counts ? cutLimit(kind, window, nowMs) : isOfFirst ? settleBurst(window) : window
  if (waitMs !== undefined) {
    const wideUntilMs = waitMs < WIDE_MS ? cut.wideUntilMs : Math.max(cut.wideUntilMs, nowMs + waitMs)
    return extendPause({ ...cut, wideUntilMs }, nowMs + waitMs * (1 + WAIT_SPREAD * chance))
  }
  if (!counts || kind === 'server' || window.limit > 1) return cut
  const pauseMs = Math.min(LOWEST.mostMs, LOWEST.firstMs * 2 ** Math.min(window.lowest, 30))
  const lowest = window.lowest + 1
  return extendPause({ ...cut, lowest }, nowMs + pauseMs * (1 + LOWEST.spread * chance))
}

function cutLimit(kind: 'refused' | 'timeout' | 'server', window: Window, nowMs: number): Taught {
  const holdMs = Math.max(CUT.holdMs, medianOf(window.firstsMs))
  const isShared = window.lease.isLearnt && isValid(window.lease, nowMs)
  const by = kind === 'refused' && isShared ? CUT.shared : CUT[kind]
  const learnt = window.isStarting ? window.held : window.limit // a starting window also let awaited calls through
  return {
    ...window,
    limit: Math.max(1, by * Math.min(learnt, boundOf(window.lease, nowMs), window.held)),
    isStarting: false,
    isSettling: window.isStarting,
    cutAtMs: nowMs,
    holdUntilMs: nowMs + holdMs,
    spans: window.spans.map((span) => ({ ...span, ended: 0, ill: 0 })),
    cut: kind,
  }
}

/** Lowers the limit after one more refusal of the first burst. */
function settleBurst(window: Window): Window {
  return { ...window, limit: Math.max(1, Math.min(window.limit, SETTLED * (window.held - 1))) }
}

/** A pause only becomes longer, never shorter. */
function extendPause(window: Taught, untilMs: number): Taught {
  return { ...window, pauseUntilMs: Math.max(window.pauseUntilMs, untilMs) }
}

function isIll(spans: readonly Span[], nowMs: number): boolean {
  const recent = spans.filter((span) => span.number > spanOf(nowMs) - SPAN.ill)
  const sum = (field: 'ended' | 'ill') => recent.reduce((total, span) => total + span[field], 0)
  return sum('ended') >= ILL.least && sum('ill') > ILL.part * sum('ended')
}

function noteInSpans(
  spans: readonly Span[],
  nowMs: number,
  { peak, ended = 0, ill = 0 }: Partial<Span> & Pick<Span, 'peak'>,
): Span[] {
  const number = spanOf(nowMs)
  const last = spans.at(-1)
  if (last?.number === number)
    return [
      ...spans.slice(0, -1),
      { number, peak: Math.max(last.peak, peak), ended: last.ended + ended, ill: last.ill + ill },
    ]
  return [...spans.filter((span) => span.number > number - SPAN.kept), { number, peak, ended, ill }]
}

function spanOf(nowMs: number): number {
  return Math.floor(nowMs / SPAN.ms)
}
