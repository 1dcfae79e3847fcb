// How large the steps of a duty may be. After a step that failed, a step has one item. After each step that succeeds it may have twice as
// many. So the item that makes steps fail is soon alone in its step, and only that item has to wait.

export type Pace = {
  /** Runs a step with at most `most` items. If a step with one item fails, it calls `rest` before it throws. */
  run<T>(step: (most: number) => Promise<T>, rest: () => Promise<void>): Promise<T>
}

export function createPace(limit: number): Pace {
  let next = limit
  return {
    run: async (step, rest) => {
      const most = next
      try {
        const done = await step(most)
        next = Math.min(limit, 2 * most)
        return done
      } catch (error) {
        next = 1
        if (most === 1) await rest()
        throw error
      }
    },
  }
}
