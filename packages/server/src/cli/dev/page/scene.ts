// The fleet as the page shows it: each process as we know it, each pod as the fleet knows it, the score, and the latest
// events. It reads from the fleet and its log only while somebody watches.
import type { z } from 'zod'
import type { podsSchema } from '../../../admin/pod-schemas.ts'
import type { Clock } from '../../../lib/clock.ts'
import { every } from '../../../lib/every.ts'
import type { Service } from '../../../lib/lifecycle.ts'
import type { FleetEvent } from '../events.ts'
import type { DevPod } from '../pods.ts'
import type { Scoring } from './score.ts'
import type { Scene, SceneEvent, ScenePod } from './wire.ts'

type SceneKeeper = {
  /** The rounds that read from the fleet. */
  readonly services: readonly Service[]
  /** Returns what to show now, and counts as watching. */
  readonly look: () => Scene
  /** Whether the page has asked lately. */
  readonly isWatched: () => boolean
  readonly take: (event: FleetEvent) => void
}

type Deps = {
  readonly clock: Clock
  readonly pods: readonly DevPod[]
  readonly scoring: Scoring
  /** As the fleet lists them. */
  readonly readPods: (signal: AbortSignal) => Promise<readonly SceneRow[]>
  readonly isChaos: () => boolean
  readonly about: () => About
}

/** The part that does not change. */
export type About = Pick<Scene, 'version' | 'postgres' | 'ttlMs' | 'pauseMs' | 'chaosMs'>
type SceneRow = z.infer<typeof podsSchema>['pods'][number]
/** With the time of reading, by the monotonic clock. */
type Rows = { readonly rows: readonly SceneRow[]; readonly atMs: number }
type SceneTerm = { readonly pod: unknown; readonly term: number }

const [PODS_MS, SCORE_MS] = [500, 1_000]
const FRESH_MS = 5_000 // older knowledge of the pods is not shown
const LOOKED_MS = 5_000
const EVENTS = 80

export function createScene({ clock, pods, scoring, readPods, isChaos, about }: Deps): SceneKeeper {
  let lookedMs = -Infinity
  let [known, term]: [Rows, SceneTerm | undefined] = [{ rows: [], atMs: 0 }, undefined]
  let [events, taken]: [readonly SceneEvent[], number] = [[], 0]
  const isWatched = () => clock.monotonicMs() - lookedMs < LOOKED_MS

  const learn = async (signal: AbortSignal) =>
    void (known = { rows: await readPods(signal), atMs: clock.monotonicMs() })
  // Errors are ignored: while pods are being killed, the next round asks again.
  const round = (name: string, everyMs: number, work: (signal: AbortSignal) => Promise<void>) =>
    every({ clock, name, everyMs, onError: () => undefined }, async (signal) => {
      if (isWatched()) await work(signal)
    })
  return {
    services: [round('pods of the page', PODS_MS, learn), round('score', SCORE_MS, scoring.check)],
    isWatched,
    look: () => {
      lookedMs = clock.monotonicMs()
      const cards = pods.map((pod) => cardOf(pod, { known, term, clock }))
      return { ...about(), isChaos: isChaos(), pods: cards, score: scoring.get(), events }
    },
    take: ({ time: at, source, level, message, fields }) => {
      taken += 1
      const shown = { ...fields, stack: undefined } // long, and in the terminal
      events = [...events, { number: taken, at, source, level, message, fields: shown }].slice(-EVENTS)
      if (message === 'leads the fleet') term = { pod: fields['pod'], term: Number(fields['term']) }
    },
  }
}

type Around = { readonly known: Rows; readonly term: SceneTerm | undefined; readonly clock: Clock }

function cardOf(pod: DevPod, { known: { rows, atMs }, term, clock }: Around): ScenePod {
  const standing = pod.standing()
  const ageMs = clock.monotonicMs() - atMs
  const own = ageMs < FRESH_MS ? rows.filter(({ name }) => name === pod.name) : []
  const row = own.sort((a, b) => b.pod - a.pod)[0] // of its latest process
  const isDead = row?.state === 'dead'
  const isUp = standing.state === 'ready' || standing.state === 'paused'
  return {
    name: pod.name,
    state: standing.state,
    readySinceMs: isUp ? standing.sinceMs : null,
    number: row?.pod ?? null,
    isLeader: row?.isLeader ?? false,
    term: row?.isLeader && term?.pod === row.pod ? term.term : null,
    isBuried: isDead,
    beatAgeMs: isUp && row && !isDead ? Math.round(row.beatAgeMs + ageMs) : null,
    wakesInMs: standing.state === 'paused' ? Math.max(0, standing.untilMs - clock.now()) : null,
    endedAgoMs: standing.state === 'waiting' ? clock.now() - standing.sinceMs : null,
    how: standing.state === 'waiting' ? standing.how : null,
  }
}
