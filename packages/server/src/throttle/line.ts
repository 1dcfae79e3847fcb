// Who waits for a permit: the first first. Whenever something may have changed, the whole test is made again for whoever is
// first; nobody is let through because he was woken. Being let through and giving up are one step each, so that a permit
// goes to somebody who still waits, or to nobody.

export type Line = {
  readonly size: number
  /** Whether it was let in at once: nobody waits, and there is room. */
  pass(): boolean
  join(): Place
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
  readonly mayEnter: () => boolean
  readonly enter: () => void
}

export function createLine({ mayEnter, enter }: Deps): Line {
  const waiting = new Set<(isIn: boolean) => void>()
  const move = () => {
    for (const letIn of waiting) {
      if (!mayEnter()) return
      waiting.delete(letIn)
      enter()
      letIn(true)
    }
  }
  return {
    get size() {
      return waiting.size
    },
    move,
    pass: () => {
      const isIn = waiting.size === 0 && mayEnter()
      if (isIn) enter()
      return isIn
    },
    join: () => {
      const { promise: turn, resolve } = Promise.withResolvers<boolean>()
      waiting.add(resolve)
      const leave = () => {
        if (waiting.delete(resolve)) resolve(false)
      }
      return { turn, leave }
    },
  }
}
