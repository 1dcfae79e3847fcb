// A value that changes, and its listeners.
import { useEffect, useReducer } from 'preact/hooks'

export type Store<T> = {
  readonly get: () => T
  readonly subscribe: (listener: () => void) => () => void
}
export type Cell<T> = Store<T> & { readonly set: (value: T) => void }

export function createCell<T>(value: T): Cell<T> {
  const listeners = new Set<() => void>()
  return {
    get: () => value,
    set: (next) => {
      value = next
      for (const listener of listeners) listener()
    },
    subscribe: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

export function useStore<T>(store: Store<T>): T {
  const [, again] = useReducer<number, void>((count) => count + 1, 0)
  useEffect(() => {
    again() // the value may have changed before this effect ran
    return store.subscribe(() => again())
  }, [store])
  return store.get()
}
