// The page of a dev fleet. Two devices on it talk through different pods, which you can kill, pause and restart meanwhile. A
// score shows what the log has lost or doubled.
import { isIPv6 } from 'node:net'
import { PAGE_LIMITS } from '@fleetline/protocol'
import { Rejected, Retry } from '../../../errors.ts'
import { within, type Clock } from '../../../lib/clock.ts'
import { compose, type Service } from '../../../lib/lifecycle.ts'
import type { Random } from '../../../lib/random.ts'
import { pageSchema } from '../../../gateway/session-schemas.ts'
import { TURN_TRACK } from '../../../session/turns.ts'
import { tasksSchema } from '../../../gateway/task-schemas.ts'
import type { z } from 'zod'
import { downstreamsSchema } from '../../../admin/downstream-schemas.ts'
import { machinesSchema } from '../../../admin/machine-schemas.ts'
import { podsSchema } from '../../../admin/pod-schemas.ts'
import { createApi } from '../../api.ts'
import { eventOf, type FleetEvent, type OnEvent } from '../events.ts'
import type { Ports } from '../pod-process.ts'
import { PAUSE_MS, type DevPod, type Pods } from '../pods.ts'
import { CHAOS_MS, createChaos } from './chaos.ts'
import { createDevices } from './devices.ts'
import { createPageDoor } from './door.ts'
import { createScene, type About } from './scene.ts'
import { createScoring } from './score.ts'
import type { Act, SceneMachine, SceneWork } from './wire.ts'

type FleetPage = Service & {
  readonly port: () => number
  /** Shows the event among the latest. */
  readonly take: (event: FleetEvent) => void
}
type Deps = {
  readonly host: string
  readonly port: number
  /** The session in which the devices talk. */
  readonly session: string
  readonly clock: Clock
  readonly random: Random
  readonly pods: Pods
  readonly about: () => Omit<About, 'pauseMs' | 'chaosMs'>
  /** Whether the session exists. */
  readonly isReady: () => boolean
  readonly onEvent: OnEvent
}

const PATIENCE_MS = 3_000
const [TASKS, QUEUES] = [5, 8] // the newest ones of at most so many queues
const WORK_PATIENCE_MS = 10_000 // a pod gives up counting after this time
const LATE = new Retry('unavailable', 'The pod does not answer')
const SAID: Readonly<Record<Act, string>> = {
  kill: 'is killed',
  pause: `is paused for ${PAUSE_MS / 1_000} s`,
  wake: 'is woken',
  restart: 'is restarted',
}

export function createFleetPage({ host, port, session, clock, random, pods, ...rest }: Deps): FleetPage {
  const { isReady, onEvent } = rest
  const about = () => ({ ...rest.about(), pauseMs: PAUSE_MS, chaosMs: CHAOS_MS })
  const { all } = pods
  const tell = (source: string, message: string, more = {}) =>
    onEvent(eventOf(source, message, { now: clock.now(), level: 'warn', ...more }))
  const { readLog, ...reads } = readsOf({ host, pods, session, clock, random })
  const scoring = createScoring(clock, readLog)
  const devices = createDevices({ host, pods: all, isReady, session, onAck: scoring.acked })
  const act = (pod: DevPod, wish: Act): boolean => {
    const isDone = pod[wish]()
    if (isDone) tell(pod.name, SAID[wish])
    if (isDone && wish === 'pause') devices.cut(pod.name)
    return isDone
  }
  const isWatched = () => scene.isWatched()
  const chaos = createChaos({ clock, random, pods: all, isWatched, kill: (pod) => void act(pod, 'kill') })
  const scene = createScene({ clock, pods: all, scoring, ...reads, isChaos: chaos.isOn, about })
  const onError = (error: unknown) =>
    tell('fleet', 'the page failed', { level: 'error', reason: String(error) })
  const door = createPageDoor({ host, port, pods: all, devices, chaos, look: scene.look, act, onError })
  return {
    ...compose('page', [door, ...scene.services, chaos]),
    port: door.port,
    take: scene.take,
  }
}

type Read = Pick<Deps, 'host' | 'pods' | 'session' | 'clock' | 'random'>

/** Reads from a pod that is ready. The port in front of the pods may have a connection to a paused one. */
function readsOf({ host, pods, session, clock, random }: Read) {
  const ask = async <T>(
    door: keyof Ports,
    path: string,
    answer: z.ZodType<T>,
    signal: AbortSignal,
    patienceMs: number = PATIENCE_MS,
  ) => {
    const live = pods.live()
    const ports = live[Math.floor(random.unit() * live.length)]
    if (!ports) throw new Retry('unavailable', 'No pod is ready')
    const over = new AbortController()
    const api = createApi(`http://${isIPv6(host) ? `[${host}]` : host}:${ports[door]}`, clock)
    const asked = api.ask({ method: 'GET', path, answer, signal: AbortSignal.any([signal, over.signal]) })
    // The pod may be paused during the request. Then the next round asks another one.
    return within(clock, patienceMs, asked, LATE, signal).finally(() => over.abort(LATE))
  }
  const log = `/sessions/${session}/messages?limit=${PAGE_LIMITS.items}`
  const isGone = (error: unknown) => error instanceof Rejected && error.code === 'not_found'
  return {
    /** A session that is gone has an empty log. */
    readLog: (after: number, signal: AbortSignal) =>
      ask('gateway', `${log}&after=${after}`, pageSchema, signal).catch((error: unknown) => {
        if (isGone(error)) return { items: [], head: 0 }
        throw error
      }),
    readPods: async (signal: AbortSignal) => (await ask('admin', '/pods', podsSchema, signal)).pods,
    readWork: async (signal: AbortSignal): Promise<SceneWork> => {
      const [machines, downstreams] = await Promise.all([
        ask('admin', '/machines', machinesSchema, signal, WORK_PATIENCE_MS),
        ask('admin', '/downstreams', downstreamsSchema, signal, WORK_PATIENCE_MS),
      ])
      const own = machines.machines.filter(({ queue }) => queue !== TURN_TRACK.queue) // turns are what the devices show
      const queues = new Set(['default', ...own.map(({ queue }) => queue)])
      const read = async (queue: string) => {
        const path = `/tasks?limit=${TASKS}&queue=${encodeURIComponent(queue)}`
        return (await ask('gateway', path, tasksSchema, signal, WORK_PATIENCE_MS)).tasks
      }
      const newest = (await Promise.all([...queues].slice(0, QUEUES).map(read))).flat()
      const tasks = newest.toSorted((a, b) => (a.id < b.id ? 1 : -1)).slice(0, TASKS)
      return { machines: countsOf(own), downstreams: downstreams.downstreams, tasks }
    },
  }
}

type ListedMachine = z.infer<typeof machinesSchema>['machines'][number]

/** For each machine, the tasks of all its shapes and transitions together. */
function countsOf(machines: readonly ListedMachine[]): SceneMachine[] {
  const byName = Map.groupBy(machines, ({ queue, machine }) => `${queue} ${machine}`)
  return Array.from(byName.values(), (shapes) => {
    const transitions = shapes.flatMap((shape) => shape.transitions)
    const sum = (state: (typeof STATES)[number]) =>
      transitions.reduce((count, transition) => count + transition[state], 0)
    const { queue, machine: name } = shapes[0]!
    const [ready, waiting, claimed, held, dead] = STATES.map(sum)
    const isEstimated = shapes.some(({ estimated }) => estimated)
    return { queue, name, isEstimated, ready, waiting, claimed, held, dead } as SceneMachine
  })
}
const STATES = ['ready', 'waiting', 'claimed', 'held', 'dead'] as const
