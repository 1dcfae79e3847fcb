// The inbox of one pod over a fake reading, on a clock that the test moves. It gets only the hints that the test gives it.
import { createInboxFollow } from '../../src/inbox/follow.ts'
import { createPages } from '../../src/inbox/pages.ts'
import type { InboxReading } from '../../src/inbox/reading.ts'
import { createWatch } from '../../src/inbox/watch.ts'
import { createByteBudget } from '../../src/lib/byte-budget.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { HintSource } from '../../src/store/hints.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'

export function inboxParts(reading: InboxReading, clock: Clock) {
  const [kinds, sources] = [new Map<string, (topic: string) => void>(), new Set<(from: HintSource) => void>()]
  const [sent, metrics]: [string[], ReturnType<typeof createMetrics>] = [[], createMetrics()]
  const watch = createWatch({
    ...reading,
    clock,
    metrics,
    hints: {
      send: (topic) => void sent.push(topic),
      listen: (_, listener) => {
        sources.add(listener)
        return () => undefined
      },
      listenTo: (kind, listener) => {
        kinds.set(kind, listener)
        return () => undefined
      },
    },
  })
  const budget = createByteBudget({ clock, most: 1_000_000_000, holdMs: 1_000, onCut: () => undefined })
  const { follow } = createInboxFollow({
    ...reading,
    ...createPages(reading),
    ...watch,
    budget,
    clock,
    cell: 0,
    reserve: () => ({ leave: () => undefined }),
  })
  return {
    ...watch,
    follow,
    metrics,
    /** The topics that it has sent. */
    sent,
    hint: (topic: string) => kinds.get(topic.slice(0, topic.indexOf(':')))?.(topic),
    tick: (from: HintSource) => sources.forEach((listener) => listener(from)),
  }
}

export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
