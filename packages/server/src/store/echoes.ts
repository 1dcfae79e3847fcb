// Detects whether the pod hears its own hints. Each send carries a mark, and a connection that listens receives it. A mark is
// missing if it was sent before the previous check and has not come back. Then LISTEN runs on another connection than the
// pod thinks, as behind a pooler in transaction mode, or on another server than the one that the pod writes to.
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'

export type Echoes = {
  /** The mark for the next send. */
  next(): string
  /** Notes that the send with the last mark has committed. */
  sent(): void
  sentAgoMs(): number
  heard(mark: string): void
  /** Notes that a new connection listens. It has missed everything that was sent before. */
  restart(): void
  /** Whether a mark that was sent before the last check has not come back. */
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
