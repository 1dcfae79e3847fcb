// What operators see of a downstream on this pod. A key that code names has a label of its own, up to a number of them; the
// others have one together, and so have all agents, whose number is their tenants' affair (S22).
import type { Metrics } from '../telemetry/metrics.ts'
import { isOfAgent } from './key.ts'
import type { FailureKind } from './outcome.ts'
import type { CutReason } from './window.ts'

/** How somebody who asked for a permit fared. */
type Asked = 'at_once' | 'waited' | 'none' | 'would_wait'
export type Meter = {
  readonly asked: (how: Asked, waitedMs: number) => void
  readonly ended: (kind: 'ok' | FailureKind, cut: CutReason | undefined) => void
}
type Counters = Pick<Metrics, 'count' | 'observe'>

const MOST_LABELS = 100
const AGENTS = '(agents)' // no key has brackets
const OTHERS = '(others)'

/** The label of each key, the same for its whole life. */
export function createLabels(): (key: string) => string {
  const labelled = new Set<string>()
  return (key) => {
    if (isOfAgent(key)) return AGENTS
    if (labelled.size < MOST_LABELS) labelled.add(key)
    return labelled.has(key) ? key : OTHERS
  }
}

export function meterOf(metrics: Counters, downstream: string): Meter {
  return {
    asked: (how, waitedMs) => {
      metrics.count('permits', { downstream, outcome: how })
      if (how === 'at_once' || how === 'waited') metrics.observe('permitWait', { downstream }, waitedMs)
    },
    ended: (kind, cut) => {
      metrics.count('downstreamReplies', { downstream, class: kind })
      if (cut) metrics.count('downstreamCuts', { downstream, reason: cut })
    },
  }
}
