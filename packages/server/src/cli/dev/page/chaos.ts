// Kills a random pod again and again, while chaos is on and somebody watches the page.
import type { Clock } from '../../../lib/clock.ts'
import { every } from '../../../lib/every.ts'
import type { Service } from '../../../lib/lifecycle.ts'
import type { Random } from '../../../lib/random.ts'
import type { DevPod } from '../pods.ts'

export type Chaos = Service & {
  readonly isOn: () => boolean
  readonly set: (isOn: boolean) => void
}
type Deps = {
  readonly clock: Clock
  readonly random: Random
  readonly pods: readonly DevPod[]
  readonly isWatched: () => boolean
  readonly kill: (pod: DevPod) => void
}

export const CHAOS_MS = 5_000

export function createChaos({ clock, random, pods, isWatched, kill }: Deps): Chaos {
  let isOn = false
  const strike = async () => {
    isOn &&= isWatched() // closing the page ends it
    const ready = pods.filter((pod) => pod.standing().state === 'ready')
    const victim = ready[Math.floor(random.unit() * ready.length)]
    if (isOn && victim) kill(victim)
  }
  const rounds = every({ clock, name: 'chaos', everyMs: CHAOS_MS, onError: () => undefined }, strike)
  return { ...rounds, isOn: () => isOn, set: (wish) => void (isOn = wish) }
}
