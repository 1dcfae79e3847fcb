// How many calls the fleet lets a pod have in flight at a downstream, and until when. Pure.
//
//   the pod                                                it may have
//   has not read yet                                       1
//   reads that nothing is learnt: no row, or no capacity   what its own rules allow
//   reads a row that does not name it                      1
//   reads its share                                        its share, which may be 0 for a while
//   has read nothing new when the lease ends               the lower of its share and the safe share, at least 1 (T6)
//
// A lease starts before the read is sent and lasts as many milliseconds as the database says are left. So no two clocks are
// compared, and a process that was suspended finds its lease expired before it sends anything.

export const LEASE_MS = 15_000

export type Lease = {
  readonly share: number
  /** Applies from the end of the lease until the next read. */
  readonly safe: number
  readonly untilMs: number
  /** The generation of the row. The pod reports it as the row that it acts on. 0 without a row. */
  readonly gen: number
  /** Whether the capacity is known. If so, the share is a part of it. */
  readonly isLearnt: boolean
  /** Whether no call is being refused, on any pod. */
  readonly isClean: boolean
}
/** A downstream's row as a pod reads it. */
export type Offer = {
  readonly gen: number
  readonly isLearnt: boolean
  readonly isClean: boolean
  /** Null if the row does not name this pod. */
  readonly share: number | null
  readonly safe: number
  readonly leftMs: number
}

/** Adds the pause that applies to all pods. */
export type HeardOffer = Offer & { readonly pauseMs: number }

/** The lease of a pod that has not read yet. */
export const UNREAD: Lease = {
  share: 1,
  safe: 1,
  untilMs: Number.NEGATIVE_INFINITY,
  gen: 0,
  isLearnt: false,
  isClean: false,
}

export function isValid(lease: Lease, nowMs: number): boolean {
  return nowMs < lease.untilMs
}

/** How many calls may be in flight, whatever this pod has learnt. */
export function boundOf(lease: Lease, nowMs: number): number {
  return isValid(lease, nowMs) ? lease.share : Math.max(1, Math.min(lease.share, lease.safe))
}

type Reading = { readonly sentMs: number; readonly most: number }

/** Makes the lease after a read. `offer` is undefined if there is no row. */
export function renewLease(lease: Lease, offer: Offer | undefined, { sentMs, most }: Reading): Lease {
  if (!offer) return lease === UNREAD ? { ...UNREAD, share: most, untilMs: sentMs + LEASE_MS } : lease
  const { gen, isLearnt, isClean, safe } = offer
  const share = offer.share ?? (isLearnt ? 1 : most)
  return { share, safe, untilMs: sentMs + offer.leftMs, gen, isLearnt, isClean }
}
