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
import type { Scene, SceneEvent, ScenePod, SceneWork } from './wire.ts'

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
  readonly readWork: (signal: AbortSignal) => Promise<SceneWork>
  readonly isChaos: () => boolean
  readonly about: () => About
}

/** The part that does not change. */
export type About = Pick<Scene, 'version' | 'postgres' | 'ttlMs' | 'pauseMs' | 'chaosMs'>
type SceneRow = z.infer<typeof podsSchema>['pods'][number]
/** With the time of reading, by the monotonic clock. */
type Read<T> = { readonly value: T; readonly atMs: number }
type SceneTerm = { readonly pod: unknown; readonly term: number }

const [PODS_MS, SCORE_MS, WORK_MS] = [500, 1_000, 1_000]
const FRESH_MS = 5_000 // older knowledge of the pods is not shown
const FRESH_WORK_MS = 20_000 // counting many tasks takes a while
const LOOKED_MS = 5_000
const EVENTS = 80

export function createScene({ clock, pods, scoring, isChaos, about, ...reads }: Deps): SceneKeeper {
  let lookedMs = -Infinity
  let [known, work]: [Read<readonly SceneRow[]>?, Read<SceneWork>?] = []
  let term: SceneTerm | undefined
  const numbers = new Map<string, unknown>() // of the current processes, by pod
  let [events, taken]: [readonly SceneEvent[], number] = [[], 0]
  const isWatched = () => clock.monotonicMs() - lookedMs < LOOKED_MS

  const learn = async (signal: AbortSignal) =>
    void (known = { value: await reads.readPods(signal), atMs: clock.monotonicMs() })
  const learnWork = async (signal: AbortSignal) =>
    void (work = { value: await reads.readWork(signal), atMs: clock.monotonicMs() })
  const fresh = <T>(read: Read<T> | undefined, freshMs: number) =>
    read && clock.monotonicMs() - read.atMs < freshMs ? read : undefined
  // Errors are ignored: while pods are being killed, the next round asks again.
  const round = (name: string, everyMs: number, work: (signal: AbortSignal) => Promise<void>) =>
    every({ clock, name, everyMs, onError: () => undefined }, async (signal) => {
      if (isWatched()) await work(signal)
    })
  return {
    services: [
      round('pods of the page', PODS_MS, learn),
      round('score', SCORE_MS, scoring.check),
      round('work of the page', WORK_MS, learnWork),
    ],
    isWatched,
    look: () => {
      lookedMs = clock.monotonicMs()
      const cards = pods.map((pod) =>
        cardOf(pod, { known: fresh(known, FRESH_MS), number: numbers.get(pod.name), term, clock }),
      )
      const now = { score: scoring.get(), work: fresh(work, FRESH_WORK_MS)?.value ?? null }
      return { ...about(), ...now, isChaos: isChaos(), pods: cards, events }
    },
    take: ({ time: at, source, level, message, fields }) => {
      taken += 1
      const { stack, ...rest } = fields // long, and in the terminal
      const shown = stack === undefined ? rest : { ...rest, isThrown: true }
      events = [...events, { number: taken, at, source, level, message, fields: shown }].slice(-EVENTS)
      if (message === 'joined the fleet') numbers.set(source, fields['pod'])
      if (message === 'leads the fleet') term = { pod: fields['pod'], term: Number(fields['term']) }
    },
  }
}

type Around = {
  readonly known: Read<readonly SceneRow[]> | undefined
  /** The fleet's number of the pod's last process. */
  readonly number: unknown
  readonly term: SceneTerm | undefined
  readonly clock: Clock
}

function cardOf(pod: DevPod, { known, number, term, clock }: Around): ScenePod {
  const standing = pod.standing()
  const ageMs = known ? clock.monotonicMs() - known.atMs : 0
  const own = known?.value.filter((row) => row.name === pod.name) ?? []
  // Without its event, because the pods log little: the latest of this name.
  const row =
    number === undefined ? own.sort((a, b) => b.pod - a.pod)[0] : own.find((row) => row.pod === number)
  const isDead = row?.state === 'dead'
  const isUp = standing.state === 'ready' || standing.state === 'paused'
  return {
    name: pod.name,
    state: standing.state,
    readySinceMs: isUp ? standing.sinceMs : null,
    number: isUp && row ? row.pod : null,
    isLeader: row?.isLeader ?? false,
    term: row?.isLeader && term?.pod === row.pod ? term.term : null,
    isBuried: isDead,
    beatAgeMs: isUp && row && !isDead ? Math.round(row.beatAgeMs + ageMs) : null,
    wakesInMs: standing.state === 'paused' ? Math.max(0, standing.untilMs - clock.now()) : null,
    endedAgoMs: standing.state === 'waiting' ? clock.now() - standing.sinceMs : null,
    how: standing.state === 'waiting' ? standing.how : null,
  }
}
