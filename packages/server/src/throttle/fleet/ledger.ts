// Makes the next row of a downstream, which the leader writes. Pure. The row contains everything that the next one needs, so
// a new leader continues where the last one stopped. A row follows from one row and replaces only that one, so T1 holds even
// if several pods think that they lead.
//
//   a pod                                      its share
//   reports, and the row names it              what `handOver` gives it
//   reports, and the row does not name it      the same; until the pod reads this row, it acts as a new pod (`lease.ts`)
//   reports that it stops: `most` is 0         none, and the old one is free at once: this is its last report
//   reports nothing any more                   as if it wanted what it has; free once its last report is older than a lease
//
// `upTo` is the most that a pod may act on: its share, and earlier shares until the pod reports that it has read a row since
// the last change. The lease of a share ends when the report that it was given for is older than a lease. So no pod acts on a
// share that was freed.
import { learnCapacity, UNLEARNT, type Capacity, type RoundSum } from './capacity.ts'
import { LEASE_MS } from './lease.ts'
import { divide, handOver } from './shares.ts'

/** A pod's report to the leader about one downstream, once a round. */
export type Load = {
  /** The generation of the row that the pod acts on. */
  readonly gen: number
  readonly inFlight: number
  readonly peak: number
  /** Undefined in a report of the previous release. */
  readonly held?: number
  readonly want: number
  /** The most that the pod would ever use. 0: the pod stops and needs nothing more. */
  readonly most: number
  readonly ok: number
  readonly refused: number
  /** Times to the first token of some of this round's calls. */
  readonly firstsMs: readonly number[]
}
export type LedgerEntry = {
  readonly share: number
  readonly upTo: number
  /** The generation of the first row with this share. */
  readonly since: number
  /** When the pod's report was written, by the database's clock. */
  readonly at: number
  /** The pod's totals that are already counted. */
  readonly ok: number
  readonly refused: number
}
export type LedgerRow = Capacity & {
  readonly gen: number
  readonly shares: Readonly<Record<string, LedgerEntry>>
  readonly safe: number
  readonly expiresMs: number
}
export type ToldLoad = { readonly pod: number; readonly at: number; readonly load: Load }

const SAFE_PART = 0.8
const RENEW_MS = 10_000

/** Makes the row that follows from the row before, or from none, and from the pods' reports. */
export function nextRow(before: LedgerRow | undefined, told: readonly ToldLoad[], nowMs: number): LedgerRow {
  const row = before ?? { ...UNLEARNT, gen: 0, shares: {}, safe: 1, expiresMs: nowMs + LEASE_MS }
  const gen = row.gen + 1
  const fresh = told.filter(({ at }) => nowMs - at <= LEASE_MS)
  const { capacity, memory } = learnCapacity(row, sumRound(row, fresh, nowMs), nowMs)
  const all = [...fresh.filter(({ load }) => load.most > 0), ...findSilent(row, fresh, nowMs)]
  const given = capacity === null ? all.map(({ load }) => load.most) : handedOut(capacity)
  return {
    gen,
    capacity,
    memory,
    shares: Object.fromEntries(all.map((one, index) => [one.pod, entryOf(one, given[index]!)])),
    safe: capacity === null ? 1 : Math.max(1, Math.floor((SAFE_PART * capacity) / Math.max(1, all.length))),
    expiresMs: nowMs + LEASE_MS,
  }

  function handedOut(limit: number): number[] {
    const most = all.reduce((total, { load }) => total + load.most, 0)
    const permits = Math.max(1, Math.floor(Math.min(limit, most)))
    const claimants = all.map((one) => ({ ...one.load, pod: one.pod, ...standing(one) }))
    const targets = divide(permits, claimants, nowMs)
    return handOver(
      permits,
      claimants.map((one, index) => ({ ...one, held: one.held ?? 0, target: targets[index]! })),
    )
  }

  function standing({ pod, load }: ToldLoad): { readonly share: number; readonly inForce: number } {
    const entry = row.shares[pod]
    if (!entry) return { share: 0, inForce: 0 }
    return { share: entry.share, inForce: load.gen >= entry.since ? entry.share : entry.upTo }
  }

  function entryOf(one: ToldLoad, share: number): LedgerEntry {
    const { load, pod } = one
    const entry = row.shares[pod]
    const at = Math.max(one.at, entry?.at ?? 0)
    const since = entry?.share === share ? entry.since : gen
    const upTo = Math.max(share, standing(one).inForce)
    return { share, upTo, since, at, ok: load.ok, refused: load.refused }
  }
}

/** Sums up what happened since the row was written. Counts nothing of a new pod, and nothing after a time without a leader. */
function sumRound(row: LedgerRow, fresh: readonly ToldLoad[], nowMs: number): RoundSum {
  const since = {
    ok: 0,
    refused: 0,
    inFlight: 0,
    peak: 0,
    left: 0,
    spare: countSpare(row, fresh),
    firstsMs: [] as number[],
  }
  const isUnbroken = nowMs < row.expiresMs
  for (const { pod, at, load } of fresh) {
    const entry = row.shares[pod]
    since.inFlight += load.inFlight
    since.peak += load.peak
    const refused = isUnbroken && entry ? Math.max(0, load.refused - entry.refused) : 0
    since.left += Math.max(load.held ?? 0, load.peak - refused)
    if (!entry || !isUnbroken) continue
    since.ok += Math.max(0, load.ok - entry.ok)
    since.refused += refused
    if (at > entry.at) since.firstsMs.push(...load.firstsMs)
  }
  return since
}

/** What satisfied pods do not use while another pod has less than it wants. Otherwise an idle pod, which has at least 1, would
 *  keep a small capacity from ever counting as in use. */
function countSpare(row: LedgerRow, fresh: readonly ToldLoad[]): number {
  const shareOf = ({ pod }: ToldLoad) => row.shares[pod]?.share ?? 0
  const [lacking, content] = [fresh.filter(lacks), fresh.filter((one) => !lacks(one))]
  if (lacking.length === 0) return 0
  return content.reduce((sum, one) => sum + Math.max(0, shareOf(one) - one.load.peak), 0)

  function lacks(one: ToldLoad): boolean {
    return one.load.want > Math.max(1, shareOf(one))
  }
}

function findSilent(row: LedgerRow, fresh: readonly ToldLoad[], nowMs: number): ToldLoad[] {
  const speaking = new Set(fresh.map(({ pod }) => pod))
  return Object.entries(row.shares).flatMap(([name, { share, at, ok, refused }]) => {
    const pod = Number(name)
    if (speaking.has(pod) || nowMs - at > LEASE_MS) return []
    const load = {
      gen: 0,
      inFlight: 0,
      peak: 0,
      want: share,
      most: Math.max(1, share),
      ok,
      refused,
      firstsMs: [],
    }
    return [{ pod, at, load }]
  })
}

/** Whether the next row differs from the row before, or the lease needs renewal. */
export function isNews(before: LedgerRow | undefined, next: LedgerRow, nowMs: number): boolean {
  if (!before || before.expiresMs - nowMs < RENEW_MS || before.capacity !== next.capacity) return true
  const pods = Object.keys(next.shares)
  if (pods.length !== Object.keys(before.shares).length) return true
  return pods.some((pod) => {
    const [was, is] = [before.shares[pod], next.shares[pod]!]
    return was?.share !== is.share || was.upTo !== is.upTo || was.ok !== is.ok || was.refused !== is.refused
  })
}
