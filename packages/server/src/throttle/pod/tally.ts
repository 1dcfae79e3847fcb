// Sums up a pod's calls to one downstream, for its report to the leader once a round. `inFlight` is the mean of the round,
// without the time of refused calls, because the provider never took them on. `peak` is the most calls at once, `held` the
// calls at the end of the round. `ok` and `refused` are totals, so an unread report loses nothing. `want` follows the peak
// plus the waiting calls, fast upwards and slowly downwards. Pure.
import type { Load } from '../fleet/ledger.ts'
import type { FailureKind } from '../reply/outcome.ts'

type Tally = {
  readonly ok: number
  readonly refused: number
  readonly want: number
  readonly held: number
  /** The most calls at once since the last report. */
  readonly peak: number
  /** Calls times milliseconds since the last report. */
  readonly areaMs: number
  readonly sinceMs: number
  readonly atMs: number
  readonly firstsMs: readonly number[]
  readonly firsts: number
}

const SAMPLES = 32
const FOLLOW = { up: 0.7, down: 0.1 }

export function emptyTally(nowMs: number): Tally {
  const none = { ok: 0, refused: 0, want: 1, held: 0, peak: 0, areaMs: 0, firsts: 0 }
  return { ...none, sinceMs: nowMs, atMs: nowMs, firstsMs: [] }
}

/** Records how many calls are in flight from now on. */
export function setHeld(tally: Tally, held: number, nowMs: number): Tally {
  const areaMs = tally.areaMs + tally.held * (nowMs - tally.atMs)
  return { ...tally, held, peak: Math.max(tally.peak, held), areaMs, atMs: nowMs }
}

type EndedCall = {
  readonly kind: 'ok' | FailureKind
  readonly firstMs?: number | undefined
  readonly sentAtMs: number
}
type Moment = { readonly nowMs: number; readonly chance: number }

/** Counts the end of a call. A report has room for 32 first-token times; of more, each has the same chance to be included. */
export function countEnd(tally: Tally, { kind, firstMs, sentAtMs }: EndedCall, moment: Moment): Tally {
  if (kind === 'refused') {
    const spentMs = moment.nowMs - Math.max(sentAtMs, tally.sinceMs)
    return { ...tally, refused: tally.refused + 1, areaMs: tally.areaMs - spentMs }
  }
  if (kind !== 'ok') return tally
  const ok = { ...tally, ok: tally.ok + 1 }
  if (firstMs === undefined) return ok
  const firsts = tally.firsts + 1
  const place = firsts <= SAMPLES ? firsts - 1 : Math.floor(moment.chance * firsts)
  const firstsMs = place < SAMPLES ? tally.firstsMs.toSpliced(place, 1, firstMs) : tally.firstsMs
  return { ...ok, firsts, firstsMs }
}

type TallyContext = {
  readonly nowMs: number
  readonly waiting: number
  readonly most: number
  readonly gen: number
}

export function takeLoad(
  before: Tally,
  { nowMs, waiting, most, gen }: TallyContext,
): { readonly tally: Tally; readonly load: Load } {
  const tally = setHeld(before, before.held, nowMs)
  const raw = tally.peak + waiting
  const want = Math.max(1, tally.want + (raw > tally.want ? FOLLOW.up : FOLLOW.down) * (raw - tally.want))
  const spanMs = nowMs - tally.sinceMs
  const inFlight = spanMs > 0 ? Math.max(0, tally.areaMs / spanMs) : tally.held
  const { ok, refused, firstsMs, peak } = tally
  return {
    tally: { ...tally, want, peak: tally.held, areaMs: 0, sinceMs: nowMs, firstsMs: [], firsts: 0 },
    load: {
      gen,
      inFlight: rounded(inFlight),
      peak,
      held: tally.held,
      want: rounded(want),
      most,
      ok,
      refused,
      firstsMs: firstsMs.map(Math.round),
    },
  }
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
