// Who waits for a permit: the first first. Whenever something may have changed, the whole test is made again for whoever is
// first; being woken grants nothing. Where calls that somebody waits for have more room than others, they pass those.
// Being let through and giving up are one step each, so that a permit goes to somebody who still waits, or to nobody.

export type Line = {
  readonly size: number
  /** Whether it was let in at once: nobody waits whom it would pass, and there is room. */
  pass(isAwaited?: boolean): boolean
  join(isAwaited?: boolean): Place
  /** Lets in as many as may go. */
  move(): void
}
export type Place = {
  /** True: it was let in. False: it has left. */
  readonly turn: Promise<boolean>
  /** No effect once it was let in. */
  readonly leave: () => void
}
type Deps = {
  /** If those may not that somebody waits for, nobody may. */
  readonly mayEnter: (isAwaited: boolean) => boolean
  readonly enter: () => void
}
type Waiting = { readonly isAwaited: boolean; readonly letIn: (isIn: boolean) => void }

export function createLine({ mayEnter, enter }: Deps): Line {
  const waiting = new Set<Waiting>()
  const move = () => {
    for (const one of waiting) {
      if (!mayEnter(true)) return
      if (!mayEnter(one.isAwaited)) continue
      waiting.delete(one)
      enter()
      one.letIn(true)
    }
  }
  return {
    get size() {
      return waiting.size
    },
    move,
    pass: (isAwaited = false) => {
      const isFirst = waiting.size === 0 || (isAwaited && !mayEnter(false))
      const isIn = isFirst && mayEnter(isAwaited)
      if (isIn) enter()
      return isIn
    },
    join: (isAwaited = false) => {
      const { promise: turn, resolve } = Promise.withResolvers<boolean>()
      const one = { isAwaited, letIn: resolve }
      waiting.add(one)
      const leave = () => {
        if (waiting.delete(one)) resolve(false)
      }
      return { turn, leave }
    },
  }
}
