// Whether the pod hears its own hints. Each send carries a mark; on a connection that listens it comes back. One that was
// sent before the look before this one, and has not come back, is missing: what listens is another connection, as behind
// a pooler by transaction, or another server than the one that is written to.
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'

export type Echoes = {
  /** The mark of the next send. */
  next(): string
  /** The send with the last mark was committed. */
  sent(): void
  sentAgoMs(): number
  heard(mark: string): void
  /** From now on another connection listens, which missed what was sent before. */
  restart(): void
  /** Has one that was sent before the last look not come back? */
  isMissing(): boolean
}

export function createEchoes({ clock, random }: { readonly clock: Clock; readonly random: Random }): Echoes {
  const own = `@${Buffer.from(random.bytes(8)).toString('hex')}.`
  const counts = { next: 0, sent: 0, due: 0, heard: 0 }
  let sentMs = clock.monotonicMs()
  return {
    next: () => `${own}${(counts.next += 1)}`,
    sent: () => {
      counts.sent = counts.next
      sentMs = clock.monotonicMs()
    },
    sentAgoMs: () => clock.monotonicMs() - sentMs,
    heard: (mark) => {
      if (mark.startsWith(own)) counts.heard = Math.max(counts.heard, Number(mark.slice(own.length)))
    },
    restart: () => {
      counts.due = counts.heard = counts.next
    },
    isMissing: () => {
      const isMissing = counts.heard < counts.due
      counts.due = counts.sent
      return isMissing
    },
  }
}
