// A queue of callers that wait for something scarce, such as a permit, in order of arrival. Whenever something may have
// changed, the owner calls `admit`, and the head of the queue is checked again: being woken grants nothing. Awaited callers
// overtake the others if they are allowed more room. Entering and leaving are one step each, so a place never goes to a
// caller that has given up.

export type Waiters = {
  readonly size: number
  /** Lets the caller in at once if there is room, and nobody waits who could enter first. */
  tryEnter(isAwaited?: boolean): boolean
  join(isAwaited?: boolean): Waiter
  /** Lets in as many as there is room for. */
  admit(): void
}
type Waiter = {
  /** True if it was let in, false if it has left. */
  readonly entered: Promise<boolean>
  /** Has no effect once it was let in. */
  readonly leave: () => void
}
type Deps = {
  /** If an awaited caller may not enter, nobody may. */
  readonly mayEnter: (isAwaited: boolean) => boolean
  readonly enter: () => void
}
type Waiting = { readonly isAwaited: boolean; readonly resolve: (isIn: boolean) => void }

export function createWaiters({ mayEnter, enter }: Deps): Waiters {
  const waiting = new Set<Waiting>()
  return {
    get size() {
      return waiting.size
    },
    admit: () => {
      for (const one of waiting) {
        if (!mayEnter(true)) return
        if (!mayEnter(one.isAwaited)) continue
        waiting.delete(one)
        enter()
        one.resolve(true)
      }
    },
    tryEnter: (isAwaited = false) => {
      const isFirst = waiting.size === 0 || (isAwaited && !mayEnter(false))
      const isIn = isFirst && mayEnter(isAwaited)
      if (isIn) enter()
      return isIn
    },
    join: (isAwaited = false) => {
      const { promise: entered, resolve } = Promise.withResolvers<boolean>()
      const one = { isAwaited, resolve }
      waiting.add(one)
      const leave = () => {
        if (waiting.delete(one)) resolve(false)
      }
      return { entered, leave }
    },
  }
}

/** A fixed number of slots. */
export type Slots = {
  /** Resolves to the function that gives the slot back; rejects with the signal's reason if that comes first. */
  take(signal: AbortSignal): Promise<() => void>
}

export function createSlots(most: number): Slots {
  let taken = 0
  const waiters = createWaiters({ mayEnter: () => taken < most, enter: () => void (taken += 1) })
  const releaseOnce = () => {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      taken -= 1
      waiters.admit()
    }
  }
  return {
    take: async (signal) => {
      signal.throwIfAborted()
      if (!waiters.tryEnter()) await waitFor(waiters.join(), signal)
      return releaseOnce()
    },
  }
}

async function waitFor({ entered, leave }: Waiter, signal: AbortSignal): Promise<void> {
  signal.addEventListener('abort', leave, { once: true })
  const isIn = await entered
  signal.removeEventListener('abort', leave)
  if (!isIn) throw signal.reason
}
