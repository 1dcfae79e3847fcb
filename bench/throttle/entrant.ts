// How pods decide whether to send. An entrant sees what a pod would see: its own sends and their ends.
import type { CallEnd } from '../../packages/server/src/throttle/pod/window.ts'
import type { Chance } from './chance.ts'
import type { Timeline } from './timeline.ts'

export type World = {
  readonly timeline: Timeline
  readonly chance: Chance
  /** Whether the provider would accept one more call. Only the oracle may ask. */
  readonly hasRoom: () => boolean
}
export type Fleet = {
  join(pod: number): void
  maySend(pod: number): boolean
  sent(pod: number): void
  ended(pod: number, end: CallEnd): void
  /** How many calls all pods together may have in flight. */
  limit(): number
}
export type Entrant = { readonly name: string; readonly open: (world: World) => Fleet }

/** Pods that know nothing of each other, each with a limit that only its own calls change. */
function eachAlone(
  name: string,
  start: number,
  next: (limit: number, kind: CallEnd['kind']) => number,
): Entrant {
  const open = ({ timeline }: World): Fleet => {
    const pods = new Map<number, { limit: number; held: number; pauseUntilMs: number }>()
    return {
      join: (pod) => void pods.set(pod, { limit: start, held: 0, pauseUntilMs: 0 }),
      maySend: (pod) => {
        const { limit, held, pauseUntilMs } = pods.get(pod)!
        return held < Math.floor(limit) && timeline.now() >= pauseUntilMs
      },
      sent: (pod) => void (pods.get(pod)!.held += 1),
      ended: (pod, end) => {
        const state = pods.get(pod)!
        state.held -= 1
        state.limit = next(state.limit, end.kind)
        const waitMs = end.kind === 'ok' ? undefined : end.waitMs
        if (waitMs !== undefined) state.pauseUntilMs = Math.max(state.pauseUntilMs, timeline.now() + waitMs)
      },
      limit: () => [...pods.values()].reduce((sum, { limit }) => sum + Math.floor(limit), 0),
    }
  }
  return { name, open }
}

/** A configured number that is right for the steady workload. */
export const FIXED: Entrant = eachAlone('fixed', 10, (limit) => limit)

/** As in early TCP: a success raises the limit by one, a rejection halves it. */
export const AIMD: Entrant = eachAlone('AIMD', 20, (limit, kind) =>
  kind === 'ok' ? Math.min(200, limit + 1) : kind === 'refused' ? Math.max(1, limit / 2) : limit,
)

/** Knows how many calls the provider accepts. */
export const ORACLE: Entrant = {
  name: 'oracle',
  open: ({ hasRoom }) => ({
    join: () => undefined,
    maySend: hasRoom,
    sent: () => undefined,
    ended: () => undefined,
    limit: () => 0,
  }),
}
