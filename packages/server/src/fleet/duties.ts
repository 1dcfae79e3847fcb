// Runs the leader's duties, which are all that a leader does. A duty repeats while this pod leads and may trust that it is
// alive. It names its term in every write of a row, so a leader that was replaced changes no row; its next look at the fleet
// shows it that it no longer leads. Each duty has its own interval and works in steps: after `STEPS_MS` it leaves the rest
// for its next run. At most three run at once, and of a group one, so that long ones hold up no other, and all of them take few
// connections.
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import { compose, type Service } from '../lib/lifecycle.ts'
import { createSlots } from '../lib/waiters.ts'
import type { Duty, Term } from '../store/leader.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'

type Deps = {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly duties: readonly Duty[]
  /** The term under which duties may run now; undefined if they may not. */
  readonly term: () => Term | undefined
}

const AT_ONCE = 3
const STEPS_MS = 2_000
const LEADS_MS = 200 // how soon a new leader begins

export function createDuties({ clock, log, metrics, duties, term }: Deps): Service {
  const slots = createSlots(AT_ONCE)
  const groups = new Map(
    duties.flatMap(({ group }) => (group === undefined ? [] : [[group, createSlots(1)]])),
  )
  /** Takes the place in the group first: a duty that waits for its group must not keep others out. */
  const enter = async ({ group = '' }: Duty, signal: AbortSignal) => {
    const leaveGroup = await groups.get(group)?.take(signal)
    const leave = await slots.take(signal).catch((error: unknown) => {
      leaveGroup?.()
      throw error
    })
    return () => {
      leave()
      leaveGroup?.()
    }
  }
  const perform = async ({ name, run }: Duty, held: Term) => {
    const startMs = clock.monotonicMs()
    const tell = (outcome: string) =>
      metrics.observe('dutyTime', { duty: name, outcome }, clock.monotonicMs() - startMs)
    try {
      await run(held, () => clock.monotonicMs() - startMs < STEPS_MS)
      tell('done')
    } catch (error) {
      tell('failed')
      log.warn('duty failed', { service: name, error })
    }
  }
  const serviceOf = (duty: Duty) => {
    let lastMs = -Infinity
    const everyMs = Math.min(LEADS_MS, duty.everyMs)
    return every({ clock, name: duty.name, everyMs, onError: () => undefined }, async (signal) => {
      if (!term() || clock.monotonicMs() - lastMs < duty.everyMs) return
      const leave = await enter(duty, signal)
      const held = term()
      if (held) await perform(duty, held)
      if (held) lastMs = clock.monotonicMs()
      leave()
    })
  }
  return compose('fleet.duties', duties.map(serviceOf))
}
