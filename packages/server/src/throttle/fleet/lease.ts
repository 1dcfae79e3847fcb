// What the fleet lets a pod have in flight at a downstream, and until when. Pure.
//
//   the pod                                                it may have
//   has not read yet                                       1
//   reads that nothing is learnt: no row, or no capacity   what its own rules let it
//   reads a row that does not name it                      1
//   reads its share                                        its share, which may be 0 for a while
//   has read nothing new by the end of the lease           the lesser of its share and the safe share, at least 1 (T6)
//
// A lease is counted from before the read was sent, by the milliseconds that the database said were left: no clocks are
// compared, and a pod that was paused finds its lease over before it sends anything.

export const LEASE_MS = 15_000

export type Lease = {
  readonly share: number
  /** Once the lease is over, however long that takes. */
  readonly safe: number
  readonly untilMs: number
  /** Of the row: what the pod says it acts on. 0 without one. */
  readonly gen: number
  /** Whether the capacity is known: the share is a part of it. */
  readonly isLearnt: boolean
  /** Whether nothing is being refused, on any pod. */
  readonly isClean: boolean
}
/** As it was read. */
export type Offer = {
  readonly gen: number
  readonly isLearnt: boolean
  readonly isClean: boolean
  /** Null: the row does not name this pod. */
  readonly share: number | null
  readonly safe: number
  readonly leftMs: number
}

/** With the pause that is meant for all pods. */
export type HeardOffer = Offer & { readonly pauseMs: number }

/** Of a pod that has not read. */
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

/** What may be in flight, whatever was learnt here. */
export function boundOf(lease: Lease, nowMs: number): number {
  return isValid(lease, nowMs) ? lease.share : Math.max(1, Math.min(lease.share, lease.safe))
}

type Reading = { readonly sentMs: number; readonly most: number }

/** After a read; `undefined`: there is no row. */
export function renewLease(lease: Lease, offer: Offer | undefined, { sentMs, most }: Reading): Lease {
  if (!offer) return lease === UNREAD ? { ...UNREAD, share: most, untilMs: sentMs + LEASE_MS } : lease
  const { gen, isLearnt, isClean, safe } = offer
  const share = offer.share ?? (isLearnt ? 1 : most)
  return { share, safe, untilMs: sentMs + offer.leftMs, gen, isLearnt, isClean }
}
