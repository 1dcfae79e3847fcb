// The listeners of a store.
export type Listeners = {
  readonly subscribe: (listener: () => void) => () => void
  /** Calls the listeners. One that is added during the call is called the next time. */
  readonly tell: () => void
}

export function createListeners(): Listeners {
  const listeners = new Set<() => void>()
  return {
    subscribe: (listener) => {
      const own = () => listener() // so that the same listener can be added twice
      listeners.add(own)
      return () => void listeners.delete(own)
    },
    tell: () => [...listeners].forEach(call),
  }
}

/** An error of a listener affects no other listener. It surfaces as an uncaught error. */
function call(listener: () => void): void {
  try {
    listener()
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}
