// Virtual time: events run in order. Events of the same moment run in the order in which they were set. No clock is read.

export type Timeline = {
  readonly now: () => number
  at(ms: number, event: () => void): void
  /** Runs all events up to this time. */
  run(untilMs: number): void
}
type Event = { readonly ms: number; readonly nth: number; readonly run: () => void }

export function createTimeline(): Timeline {
  const heap: Event[] = []
  let [nowMs, count] = [0, 0]
  return {
    now: () => nowMs,
    at: (ms, run) => {
      push(heap, { ms: Math.max(ms, nowMs), nth: count, run })
      count += 1
    },
    run: (untilMs) => {
      for (let next = heap[0]; next && next.ms <= untilMs; next = heap[0]) {
        pop(heap)
        nowMs = next.ms
        next.run()
      }
      nowMs = untilMs
    },
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.ms < other.ms || (one.ms === other.ms && one.nth < other.nth)
}

function push(heap: Event[], event: Event): void {
  let place = heap.push(event) - 1
  while (place > 0) {
    const above = (place - 1) >> 1
    if (!isBefore(event, heap[above]!)) break
    heap[place] = heap[above]!
    place = above
  }
  heap[place] = event
}

function pop(heap: Event[]): void {
  const last = heap.pop()!
  if (heap.length === 0) return
  let place = 0
  for (;;) {
    const [left, right] = [2 * place + 1, 2 * place + 2]
    if (left >= heap.length) break
    const below = right < heap.length && isBefore(heap[right]!, heap[left]!) ? right : left
    if (!isBefore(heap[below]!, last)) break
    heap[place] = heap[below]!
    place = below
  }
  heap[place] = last
}
