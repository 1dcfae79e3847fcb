// Asks the clients of sockets and event streams to move to another pod, because this one takes no more work. Each gets a random time to
// move at, within ten seconds at most, so that they do not all reach the other pods at once. Two seconds after the last of these times,
// the pod disconnects those that are left. Downloads cannot continue elsewhere, so the pod only waits for them.
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'

export type Guest = {
  /** Asks it to leave after this time. */
  readonly ask: (afterMs: number) => void
  /** Sends it away. */
  readonly end: () => void
}
export type ClientMoves = {
  /** From `begin` on, until `cancel`. */
  readonly isOn: () => boolean
  /** Counts a guest until the returned function is called. A guest that comes after `begin` is sent away at once. */
  readonly enter: (kind: keyof Guests, guest: Guest) => () => void
  /** Counts a download until the returned function is called. */
  readonly download: () => () => void
  readonly count: () => Guests
  /** Resolves when all have left and no download runs, when it is cancelled, or after `mostMs`, which is `MOVE_MS` at least. */
  readonly begin: (mostMs?: number) => Promise<void>
  readonly cancel: () => void
}
/** How many there are of each kind. */
export type Guests = { readonly sockets: number; readonly streams: number }
type Deps = { readonly clock: Clock; readonly random: Random }

const MOST_SPREAD_MS = 10_000
const EACH_MS = 20
const GRACE_MS = 2_000

/** How long it takes at most until all clients of sockets and event streams have left. */
export const MOVE_MS: number = MOST_SPREAD_MS + 2 * GRACE_MS

export function createMoving({ clock, random }: Deps): ClientMoves {
  const guests = new Map<Guest, keyof Guests>()
  let downloads = 0
  let over: AbortController | undefined // aborted when all have left, or when it is cancelled
  const left = () => {
    if (guests.size + downloads === 0) over?.abort()
  }
  const move = async (signal: AbortSignal, mostMs: number) => {
    const spreadMs = Math.min(MOST_SPREAD_MS, EACH_MS * guests.size)
    guests.forEach((_, { ask }) => ask(Math.round(random.unit() * spreadMs)))
    await clock.sleep(spreadMs + GRACE_MS, signal)
    guests.forEach((_, { end }) => end())
    await clock.sleep(Math.max(GRACE_MS, mostMs - spreadMs - GRACE_MS), signal) // sockets still say good-bye
  }
  return {
    isOn: () => over !== undefined,
    count: () => {
      const sockets = Array.from(guests.values()).filter((kind) => kind === 'sockets').length
      return { sockets, streams: guests.size - sockets }
    },
    enter: (kind, guest) => {
      guests.set(guest, kind)
      if (over) guest.end()
      return () => {
        guests.delete(guest)
        left()
      }
    },
    download: () => {
      downloads += 1
      return () => {
        downloads -= 1
        left()
      }
    },
    begin: async (mostMs = MOVE_MS) => {
      const mine = (over ??= new AbortController())
      const moved = move(mine.signal, mostMs)
      left()
      await moved.catch(() => undefined) // all have left
    },
    cancel: () => {
      over?.abort()
      over = undefined
    },
  }
}
