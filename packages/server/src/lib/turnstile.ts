// Lets so many through at once; the others wait, the first first.

export type Turnstile = {
  /** Resolves to what lets the next one in; rejects with the reason of the signal if that comes first. */
  enter(signal: AbortSignal): Promise<() => void>
}

export function createTurnstile(most: number): Turnstile {
  let inside = 0
  const waiting = new Set<() => void>()
  const leave = () => {
    const [next] = waiting
    if (next) next() // to whom the place goes
    else inside -= 1
  }
  const leaveOnce = () => {
    let hasLeft = false
    return () => {
      if (!hasLeft) leave()
      hasLeft = true
    }
  }
  return {
    enter: async (signal) => {
      signal.throwIfAborted()
      if (inside < most) inside += 1
      else await turn(waiting, signal)
      return leaveOnce()
    },
  }
}

function turn(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (end: () => void) => {
      waiting.delete(letIn)
      signal.removeEventListener('abort', onAbort)
      end()
    }
    const letIn = () => done(resolve)
    const onAbort = () => done(() => reject(signal.reason as Error))
    waiting.add(letIn)
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
