// What the leader does, and nothing else: recover. A duty runs again and again while this pod leads and may trust that
// it is alive. It names its term in every write of a row, so that one that was overtaken changes none; the next look at the
// fleet tells this pod that it no longer leads. One after the other: a duty is short, or works in steps.
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Log } from '../telemetry/log.ts'
import type { Term } from './pods.ts'

export type Duty = {
  readonly name: string
  readonly everyMs: number
  readonly run: (term: Term) => Promise<void>
}

type Deps = {
  readonly clock: Clock
  readonly log: Log
  readonly tickMs: number
  readonly duties: readonly Duty[]
  /** The term under which duties may run now. */
  readonly term: () => Term | undefined
}

export function createDuties({ clock, log, tickMs, duties, term }: Deps): Service {
  const lastMs = new Map<Duty, number>()
  const isDue = (duty: Duty) => clock.monotonicMs() - (lastMs.get(duty) ?? -Infinity) >= duty.everyMs
  const work = async () => {
    for (const duty of duties.filter(isDue)) {
      const held = term()
      if (!held) return
      lastMs.set(duty, clock.monotonicMs())
      await duty.run(held).catch((error: unknown) => log.warn('duty failed', { service: duty.name, error }))
    }
  }
  return every({ clock, name: 'fleet.duties', everyMs: tickMs, onError: () => undefined }, work)
}
