// A value that was read at most 2.5 s ago. Every request needs it, so requests at the same time share one read. `forget` makes
// the next request read again. A read that took more than 5 s proves nothing. (S9: what is revoked ends within 5 s.)
import { Retry } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'

export type Recent<T> = {
  /** If the read fails because PostgreSQL does not answer, a value of at most `outageMs` is enough. */
  get(outageMs?: number): Promise<T>
  forget(): void
  /** What was read last, however long ago. */
  last(): T | undefined
}
type Dated<T> = { readonly askedMs: number; readonly value: T }

const KEPT_MS = 2_500
const OLDEST_MS = 5_000

export function createRecent<T>(read: () => Promise<T>, clock: Clock): Recent<T> {
  let [reading, last]: [Dated<Promise<T>>?, Dated<T>?] = []
  const isYounger = ({ askedMs }: { readonly askedMs: number }, ms: number) =>
    clock.monotonicMs() < askedMs + ms
  const begin = (): Dated<Promise<T>> => {
    const entry = { askedMs: clock.monotonicMs(), value: read() }
    entry.value.then(
      (value) => {
        if (!last || last.askedMs < entry.askedMs) last = { askedMs: entry.askedMs, value }
      },
      () => reading === entry && (reading = undefined),
    )
    return entry
  }
  return {
    get: async (outageMs = 0) => {
      if (!reading || !isYounger(reading, KEPT_MS)) reading = begin()
      const { askedMs, value } = reading
      try {
        const found = await value
        if (!isYounger({ askedMs }, OLDEST_MS)) throw new Retry('unavailable', 'It was read too slowly')
        return found
      } catch (error) {
        if (error instanceof Retry && last && isYounger(last, outageMs)) return last.value
        throw error
      }
    },
    forget: () => (reading = undefined),
    last: () => last?.value,
  }
}
