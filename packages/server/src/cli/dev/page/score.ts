// Checks the log against what Fleetline promises. Each message that a device was told is stored must be in the
// log, at its seq. What was once in the log must stay. Nothing may be in it twice. It reads the whole log through the pods, like
// any reader.
import type { Ack } from '@fleetline/protocol'
import type { Clock } from '../../../lib/clock.ts'
import type { Score } from './wire.ts'

export type Scoring = {
  /** Records an ack that a device received. */
  readonly acked: (ack: Pick<Ack, 'id' | 'seq'>) => void
  /** Reads the log and computes the score. */
  readonly check: (signal: AbortSignal) => Promise<void>
  /** The score of the last reading; null if that is too old. */
  readonly get: () => Score | null
}

/** Reads a page of the log: the messages after a seq. */
type Read = (
  after: number,
  signal: AbortSignal,
) => Promise<{ readonly items: readonly Entry[]; readonly head: number }>
type Entry = {
  readonly id: string
  readonly seq: number
  readonly turn?: string | undefined
  readonly answers?: number | undefined
}
const FRESH_MS = 10_000 // an older score is not shown, because it cannot be checked any more

/** A message's seq and id. */
type LogPlace = string

export function createScoring(clock: Pick<Clock, 'monotonicMs'>, read: Read): Scoring {
  const acks = new Set<LogPlace>()
  let [seen, score, readMs]: [ReadonlySet<LogPlace>, Score | null, number] = [new Set(), null, 0]
  return {
    acked: (ack) => void acks.add(placeOf(ack)),
    check: async (signal) => {
      const [told, acked] = [new Set([...seen, ...acks]), acks.size] // taken before the log is read
      const there = await readAll(read, signal)
      const places = new Set(there.map(placeOf))
      score = {
        acked,
        lost: [...told].filter((place) => !places.has(place)).length,
        doubled: doubledOf(there),
      }
      seen = new Set([...seen, ...places])
      readMs = clock.monotonicMs()
    },
    get: () => (clock.monotonicMs() - readMs < FRESH_MS ? score : null),
  }
}

function placeOf({ id, seq }: Pick<Entry, 'id' | 'seq'>): LogPlace {
  return `${seq} ${id}`
}

/** Counts repeated entries: the same id, a second reply of a turn, or a second reply to the same message. */
function doubledOf(items: readonly Entry[]): number {
  const seen = new Set<string>()
  return items.filter(({ id, turn, answers }) => {
    const marks = [`id ${id}`, ...(turn ? [`turn ${turn}`] : []), ...(answers ? [`answers ${answers}`] : [])]
    const isAgain = marks.some((mark) => seen.has(mark))
    for (const mark of marks) seen.add(mark)
    return isAgain
  }).length
}

async function readAll(read: Read, signal: AbortSignal): Promise<Entry[]> {
  const items: Entry[] = []
  for (;;) {
    const { items: next, head } = await read(items.at(-1)?.seq ?? 0, signal)
    items.push(...next)
    if (next.length === 0 || next.at(-1)!.seq >= head) return items
  }
}
