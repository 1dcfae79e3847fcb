// The page of a dev fleet. Two devices on it talk through different pods, which you can kill, pause and restart meanwhile. A
// score shows what the log has lost or doubled.
import { isIPv6 } from 'node:net'
import { PAGE_LIMITS } from '@fleetline/protocol'
import { Rejected, Retry } from '../../../errors.ts'
import { within, type Clock } from '../../../lib/clock.ts'
import { compose, type Service } from '../../../lib/lifecycle.ts'
import type { Random } from '../../../lib/random.ts'
import { pageSchema } from '../../../gateway/session-schemas.ts'
import type { z } from 'zod'
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
import type { Act } from './wire.ts'

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
  const { readLog, readPods } = readsOf({ host, pods, session, clock, random })
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
  const scene = createScene({ clock, pods: all, scoring, readPods, isChaos: chaos.isOn, about })
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
  const ask = async <T>(door: keyof Ports, path: string, answer: z.ZodType<T>, signal: AbortSignal) => {
    const live = pods.live()
    const ports = live[Math.floor(random.unit() * live.length)]
    if (!ports) throw new Retry('unavailable', 'No pod is ready')
    const over = new AbortController()
    const api = createApi(`http://${isIPv6(host) ? `[${host}]` : host}:${ports[door]}`, clock)
    const asked = api.ask({ method: 'GET', path, answer, signal: AbortSignal.any([signal, over.signal]) })
    // The pod may be paused during the request. Then the next round asks another one.
    return within(clock, PATIENCE_MS, asked, LATE, signal).finally(() => over.abort(LATE))
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
  }
}
