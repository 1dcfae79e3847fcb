// A limit on bytes in memory, shared by many holders. A holder that asks for more than is left waits, in order of arrival.
// Holders that used their last bytes within one second go first, but every eighth turn goes to the others. While somebody
// waits, the budget cuts the holder that has kept its bytes longest, once that is longer than `holdMs`. So a holder that
// does not progress blocks nobody.
import { createBell } from './bell.ts'
import type { Clock } from './clock.ts'

export type ByteBudget = {
  readonly bytes: () => number
  /** A fair size for one holder: an equal part of the budget, or a 32nd of the free bytes if that is more. */
  readonly fair: () => number
  /** The budget calls `cut` to end the holder, which then gives back its bytes. */
  readonly open: (cut: () => void) => BudgetShare
}

/** The bytes of one holder. */
export type BudgetShare = {
  /** Replaces what the holder had before. Rejects with the signal's reason if it is aborted first. */
  readonly take: (bytes: number, signal: AbortSignal) => Promise<void>
  /** Gives back all but `bytes`. From now on, time counts towards `holdMs`. */
  readonly keep: (bytes: number) => void
  /** Gives back the rest, because the work is done. */
  readonly done: () => void
  readonly close: () => void
}

type Deps = {
  readonly clock: Clock
  readonly most: number
  readonly holdMs: number
  readonly onCut: () => void
}
type Holder = { bytes: number; sinceMs: number; isQuick: boolean; isCut: boolean; readonly cut: () => void }
type Waiting = { readonly holder: Holder; readonly bytes: number; readonly resolve: () => void }

const QUICK_MS = 1_000
const MOST_QUICK = 8 // then one of the others gets a turn

export function createByteBudget({ clock, most, holdMs, onCut }: Deps): ByteBudget {
  const holders = new Set<Holder>() // in order of time: the first has kept its bytes longest
  const [quick, others] = [new Set<Waiting>(), new Set<Waiting>()]
  const bell = createBell(clock)
  let [used, leaving, shares, served, isWatching] = [0, 0, 0, 0, false]

  const first = (): Waiting | undefined => {
    const [one, other] = [quick, others].map((line) => line.values().next().value)
    return served % MOST_QUICK === 0 ? (other ?? one) : (one ?? other)
  }
  const change = (holder: Holder, bytes: number) => {
    used += bytes - holder.bytes
    if (holder.isCut) leaving += bytes - holder.bytes
    holder.bytes = bytes
    if (bytes === 0) holders.delete(holder)
  }
  const fits = (bytes: number) => used + bytes <= most || used === 0
  const serve = () => {
    for (let next = first(); next && fits(next.bytes); next = first()) {
      quick.delete(next)
      others.delete(next)
      served += 1
      change(next.holder, next.bytes)
      next.resolve()
    }
    bell.ring()
  }
  const keep = (holder: Holder, bytes: number) => {
    change(holder, Math.min(bytes, holder.bytes))
    holder.sinceMs = clock.monotonicMs()
    if (holder.bytes > 0 && !holder.isCut) holders.add(holder)
    serve()
  }
  /** Cuts the holder that has kept its bytes too long, unless enough bytes will return soon. Returns when to look again. */
  const cutFor = ({ bytes }: Waiting): number => {
    const [oldest] = holders
    if (!oldest || used - leaving + bytes <= most) return holdMs
    const leftMs = oldest.sinceMs + holdMs - clock.monotonicMs()
    if (leftMs > 0) return leftMs
    holders.delete(oldest)
    oldest.isCut = true
    leaving += oldest.bytes
    oldest.cut()
    onCut()
    return 0
  }
  const watch = async () => {
    isWatching = true
    for (let next = first(); next; next = first()) await bell.wait(cutFor(next))
    isWatching = false
  }
  const wait = async (holder: Holder, bytes: number, signal: AbortSignal) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const [waiting, line] = [{ holder, bytes, resolve }, holder.isQuick ? quick : others]
    const onAbort = () => {
      line.delete(waiting)
      serve()
      reject(signal.reason as Error)
    }
    line.add(waiting)
    signal.addEventListener('abort', onAbort, { once: true })
    if (!isWatching) void watch()
    await promise.finally(() => signal.removeEventListener('abort', onAbort))
  }
  return {
    bytes: () => used,
    fair: () => Math.max(most / shares, (most - used) / 32),
    open: (cut) => {
      shares += 1
      const holder: Holder = { bytes: 0, sinceMs: 0, isQuick: false, isCut: false, cut }
      return {
        take: async (bytes, signal) => {
          signal.throwIfAborted()
          if (bytes > holder.bytes && holder.bytes > 0) holder.isQuick = true // it has already waited once, for too few bytes
          keep(holder, 0)
          if (!first() && fits(bytes)) change(holder, bytes)
          else await wait(holder, bytes, signal)
        },
        keep: (bytes) => keep(holder, bytes),
        done: () => {
          holder.isQuick = clock.monotonicMs() - holder.sinceMs < QUICK_MS
          keep(holder, 0)
        },
        close: () => {
          shares -= 1
          keep(holder, 0)
        },
      }
    },
  }
}
