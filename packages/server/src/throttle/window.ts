// How many calls one pod may have in flight at one downstream, learnt from how its calls end. Pure functions of
// (window, event, now, chance). At most `cap` are in flight, cap = max(1, ⌊min(limit, bound)⌋), none at all under a share of
// nothing, and none begins in a pause. The bound is what the fleet lets this pod have (`lease`).
//
//   a call ends   when                                             then
//   ok            in use (held ≥ .8 cap), no hold, latency < 1.3   limit + 1 (starting), + 1/limit (later: + 1 a round trip)
//   ok            a latency window closed at > 1.6                 limit × .95
//   refused       sent after the last cut                          cut × .7, starting ends, hold for max(2 s, first token);
//                                                                  × .85 under a share, as the leader cuts, too
//   timeout       sent after the last cut                          cut × .85, likewise
//   server        > 20 % of ≥ 10 ends in 30 s, sent after the cut  cut × .7, likewise
//   client        always                                           nothing
//   refused, timeout, server     with a wait                       pause for the wait and up to a tenth more
//   refused, timeout             at limit 1, without a wait        pause for 1, 2, 4 … 60 s and up to a quarter more
//   refused, timeout, server     with a wait of 10 s or more       all pods are to pause: `wideUntilMs`
//   ok            always                                           limit ≤ max(its start, twice the most that were in flight
//                                                                  at once in the last minute)
//   (a lease is read)            always                            limit ≤ bound; starting ends once a capacity is known
//   (a lease is read)            a capacity is known, nothing is   limit = bound
//                                refused anywhere, no cut here for
//                                three calls' time
//
// A cut is of what was truly in flight. Calls sent before a cut do not cut again (T2): the refusals of one overload are one.
import { medianOf, timed, UNTIMED, type Latency } from './latency.ts'
import { boundOf, isValid, UNREAD, type Lease } from './lease.ts'
import type { Failure } from './outcome.ts'

export type Rules = {
  /** The first limit. */
  readonly start: number
  /** The greatest. */
  readonly most: number
}
export type Window = {
  /** What was learnt, with its fraction. */
  readonly limit: number
  /** What it may not pass, whatever was learnt. */
  readonly lease: Lease
  readonly isStarting: boolean
  readonly held: number
  readonly cutAtMs: number
  readonly holdUntilMs: number
  readonly pauseUntilMs: number
  /** A wait so long that it is meant for all pods, as it was told. */
  readonly wideUntilMs: number
  readonly latency: Latency
  /** Of the last successes: until the first token, and in whole. */
  readonly firstsMs: readonly number[]
  readonly wholesMs: readonly number[]
  /** The last minute, the newest last. */
  readonly spans: readonly Span[]
  /** Cuts at limit 1 since a success, none of which was told a wait. */
  readonly lowest: number
}
type Span = {
  readonly number: number
  readonly peak: number
  readonly ended: number
  readonly ill: number
}
type Ok = { readonly kind: 'ok'; readonly firstMs?: number | undefined; readonly wholeMs: number }
export type End = (Ok | Failure) & { readonly sentAtMs: number }
export type Moment = {
  readonly nowMs: number
  /** From 0 to 1. */
  readonly chance: number
}
export type CutReason = 'refused' | 'timeout' | 'server' | 'latency'
type Taught = Window & { readonly cut?: CutReason | undefined }

const SPAN = { ms: 5_000, kept: 12, ill: 6 }
const REMEMBERED = 100
const IN_USE = 0.8
const SLOW = { hold: 1.3, shrink: 1.6, by: 0.95 }
const CUT = { refused: 0.7, shared: 0.85, timeout: 0.85, server: 0.7, holdMs: 2_000 }
const ILL = { part: 0.2, least: 10 }
const LOWEST = { firstMs: 1_000, mostMs: 60_000, spread: 0.25 }
const WAIT_SPREAD = 0.1
const WIDE_MS = 10_000
const CALM_CALLS = 3
const AGAIN = { leastMs: 1_000, aheadMs: 30_000 }

export function opened({ start, most }: Rules): Window {
  return {
    limit: Math.min(start, most),
    lease: UNREAD,
    isStarting: true,
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

export function capOf({ limit, lease }: Window, nowMs: number): number {
  const bound = boundOf(lease, nowMs)
  return bound === 0 ? 0 : Math.max(1, Math.floor(Math.min(limit, bound)))
}

export function maySend(window: Window, nowMs: number): boolean {
  return window.held < capOf(window, nowMs) && nowMs >= window.pauseUntilMs
}

/** Until when nothing is sent, unless another lease is read; in the past if something may be. */
export function shutUntilMs({ lease, pauseUntilMs }: Window, nowMs: number): number {
  return boundOf(lease, nowMs) === 0 ? Math.max(lease.untilMs, pauseUntilMs) : pauseUntilMs
}

export function sent(window: Window, nowMs: number): Window {
  const held = window.held + 1
  return { ...window, held, spans: noted(window.spans, nowMs, { peak: held }) }
}

/** What the fleet lets this pod have from now on. */
export function leased(window: Window, lease: Lease, nowMs: number): Window {
  const bound = boundOf(lease, nowMs)
  const isCalm = nowMs - window.cutAtMs >= CALM_CALLS * medianOf(window.wholesMs)
  const pulls = lease.isLearnt && lease.isClean && isCalm && isValid(lease, nowMs)
  return {
    ...window,
    lease,
    limit: Math.max(1, pulls ? bound : Math.min(window.limit, bound)),
    isStarting: window.isStarting && !lease.isLearnt,
  }
}

/** Another pod was told to wait, for all of them. */
export function hushed(window: Window, pauseMs: number, { nowMs, chance }: Moment): Window {
  if (nowMs + pauseMs <= window.pauseUntilMs) return window // heard before: a round must not spread it anew
  return paused(window, nowMs + pauseMs * (1 + WAIT_SPREAD * chance))
}

/** One call's end: what it teaches, and its permit back. `cut` says why the limit was cut, if it was. */
export function ended(
  window: Window,
  end: End,
  { rules, ...moment }: Moment & { readonly rules: Rules },
): { readonly window: Window; readonly cut?: CutReason | undefined } {
  const { nowMs } = moment
  const counted = end.sentAtMs >= window.cutAtMs ? 1 : 0
  const ill = end.kind === 'server' ? counted : 0
  const seen = { ...window, spans: noted(window.spans, nowMs, { peak: window.held, ended: counted, ill }) }
  const { cut, ...taught } =
    end.kind === 'ok' ? succeeded(seen, end, { nowMs, rules }) : failed(seen, end, moment)
  return { window: { ...taught, held: taught.held - 1 }, cut }
}

/**
 * When to ask again who was turned away now, as far as that can be told: after one who was turned away before, by as much
 * as calls end one after the other here.
 */
export function comesAgainAtMs(window: Window, lastMs: number, { nowMs, chance }: Moment): number {
  const usualMs = Math.max(AGAIN.leastMs, medianOf(window.wholesMs))
  const openMs = window.pauseUntilMs > nowMs ? window.pauseUntilMs : nowMs + usualMs * (1 + chance / 2)
  const gapMs = usualMs / Math.max(1, capOf(window, nowMs))
  return Math.min(Math.max(openMs, lastMs + gapMs), openMs + AGAIN.aheadMs)
}

function succeeded(
  window: Window,
  { firstMs, wholeMs }: Ok,
  { nowMs, rules }: { readonly nowMs: number; readonly rules: Rules },
): Taught {
  const { isClosed, ...latency } =
    firstMs === undefined ? { ...window.latency, isClosed: false } : timed(window.latency, firstMs, nowMs)
  const inUse = window.held >= IN_USE * capOf(window, nowMs)
  const mayGrow = inUse && nowMs >= window.holdUntilMs && latency.ratio < SLOW.hold
  const step = window.isStarting ? 1 : 1 / window.limit
  const slow = isClosed && latency.ratio > SLOW.shrink
  const limit = slow ? window.limit * SLOW.by : window.limit + (mayGrow ? step : 0)
  const peak = Math.max(...window.spans.map((span) => span.peak))
  return {
    ...window,
    latency,
    limit: Math.max(1, Math.min(limit, boundOf(window.lease, nowMs), Math.max(rules.start, 2 * peak))),
    firstsMs: firstMs === undefined ? window.firstsMs : [...window.firstsMs, firstMs].slice(-REMEMBERED),
    wholesMs: [...window.wholesMs, wholeMs].slice(-REMEMBERED),
    lowest: 0,
    cut: slow ? 'latency' : undefined,
  }
}

function failed(
  window: Window,
  { kind, waitMs, sentAtMs }: Failure & { readonly sentAtMs: number },
  { nowMs, chance }: Moment,
): Taught {
  if (kind === 'client') return window
  const counts = sentAtMs >= window.cutAtMs && (kind !== 'server' || isIll(window.spans, nowMs))
  const cut = counts ? cutBy(kind, window, nowMs) : window
  if (waitMs !== undefined) {
    const wideUntilMs = waitMs < WIDE_MS ? cut.wideUntilMs : Math.max(cut.wideUntilMs, nowMs + waitMs)
    return paused({ ...cut, wideUntilMs }, nowMs + waitMs * (1 + WAIT_SPREAD * chance))
  }
  if (!counts || kind === 'server' || window.limit > 1) return cut
  const pauseMs = Math.min(LOWEST.mostMs, LOWEST.firstMs * 2 ** Math.min(window.lowest, 30))
  const lowest = window.lowest + 1
  return paused({ ...cut, lowest }, nowMs + pauseMs * (1 + LOWEST.spread * chance))
}

function cutBy(kind: 'refused' | 'timeout' | 'server', window: Window, nowMs: number): Taught {
  const holdMs = Math.max(CUT.holdMs, medianOf(window.firstsMs))
  const isShared = window.lease.isLearnt && isValid(window.lease, nowMs)
  const by = kind === 'refused' && isShared ? CUT.shared : CUT[kind]
  return {
    ...window,
    limit: Math.max(1, by * Math.min(window.limit, boundOf(window.lease, nowMs), window.held)),
    isStarting: false,
    cutAtMs: nowMs,
    holdUntilMs: nowMs + holdMs,
    spans: window.spans.map((span) => ({ ...span, ended: 0, ill: 0 })),
    cut: kind,
  }
}

/** A pause only ever becomes longer. */
function paused(window: Taught, untilMs: number): Taught {
  return { ...window, pauseUntilMs: Math.max(window.pauseUntilMs, untilMs) }
}

function isIll(spans: readonly Span[], nowMs: number): boolean {
  const recent = spans.filter((span) => span.number > spanOf(nowMs) - SPAN.ill)
  const sum = (field: 'ended' | 'ill') => recent.reduce((total, span) => total + span[field], 0)
  return sum('ended') >= ILL.least && sum('ill') > ILL.part * sum('ended')
}

function noted(
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
