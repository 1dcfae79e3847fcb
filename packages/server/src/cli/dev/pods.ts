// The pods of a dev fleet, and what a person can do to them: kill, pause, wake, restart. Each process is a `fleetline start`
// with its own log file.
//   state      becomes
//   starting   ready, when the pod says so; ending, on request, if it was ready before; waiting, when the process ends. If it was
//              never ready, the fleet's start fails
//   ready      paused or ending, on request; waiting, when it is killed or the process ends
//   paused     ready, when it is woken; ending, on request; waiting, when it is killed or the process ends
//   ending     waiting, when the process ends
//   waiting    starting, after a wait that grows while the pod keeps ending soon, or at once on request
//   any        ended, when the fleet stops: SIGTERM, and SIGKILL if that takes too long
import { createWriteStream, writeFileSync, type WriteStream } from 'node:fs'
import { promisify } from 'node:util'
import type { Flags } from '../../config.ts'
import { Abort } from '../../errors.ts'
import { backoffMs } from '../../lib/backoff.ts'
import { createBell, type Bell } from '../../lib/bell.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Random } from '../../lib/random.ts'
import { eventOf, type OnEvent } from './events.ts'
import { shortPath } from './folder.ts'
import { startPodProcess, type PodProcess, type Ports } from './pod-process.ts'

export type Pods = Service & {
  readonly all: readonly DevPod[]
  /** The ports of the pods that are ready now. */
  live(): readonly Ports[]
}
export type DevPod = {
  readonly name: string
  standing(): PodState
  /** These return whether the pod's state allowed it. */
  kill(): boolean
  pause(): boolean
  wake(): boolean
  /** Asks a running pod to stop and starts it again at once. */
  restart(): boolean
}
export type PodState =
  | { readonly state: 'starting' | 'ending' | 'ended' }
  | { readonly state: 'ready'; readonly ports: Ports; readonly sinceMs: number }
  | { readonly state: 'paused'; readonly ports: Ports; readonly sinceMs: number; readonly untilMs: number }
  | { readonly state: 'waiting'; readonly sinceMs: number; readonly how: string }

export type PodPlan = {
  readonly name: string
  readonly app: string | undefined
  readonly settings: () => Flags
  /** How long its stop takes at most. */
  readonly stopMs: number
  readonly logFile: string
  /** Holds the process id while the pod runs, and is empty otherwise: for people who want to kill the pod. */
  readonly pidFile: string
}

type Deps = { readonly clock: Clock; readonly random: Random; readonly onEvent: OnEvent }

const ENDED: PodState = { state: 'ended' }
export const PAUSE_MS = 20_000
const AGAIN = { baseMs: 1_000, capMs: 10_000 }
const SETTLED_MS = 10_000 // if the process ran longer than this, the next end counts as the first

export function createPods(plans: readonly PodPlan[], deps: Deps): Pods {
  const all = plans.map((plan) => createPod(plan, deps))
  return {
    name: 'pods',
    all,
    live: () => all.flatMap((pod) => portsOf(pod.standing()) ?? []),
    start: async () => void (await Promise.all(all.map((pod) => pod.start()))),
    stop: async () => void (await Promise.all(all.map((pod) => pod.stop()))),
  }
}

/** The pod's ports; undefined if it is not ready. */
export function portsOf(standing: PodState): Ports | undefined {
  return standing.state === 'ready' ? standing.ports : undefined
}

function createPod(plan: PodPlan, { clock, random, onEvent }: Deps): DevPod & Service {
  const stopping = new AbortController()
  const [ready, bell] = [Promise.withResolvers<void>(), createBell(clock)]
  let standing: PodState = { state: 'starting' }
  let [process, kept]: [PodProcess?, Promise<void>?] = []
  let wasReady = false

  const tell: Tell = (message, reason) =>
    onEvent(eventOf(plan.name, message, { level: 'warn', reason, now: clock.now() }))
  const onReady = (ports: Ports) => {
    standing = { state: 'ready', ports, sinceMs: clock.now() }
    wasReady = true
    ready.resolve()
  }
  const live = async (log: WriteStream): Promise<string> => {
    standing = { state: 'starting' }
    process = startPodProcess({ ...plan, settings: plan.settings() }, { clock, log, onEvent, onReady })
    if (stopping.signal.aborted) process.end()
    writePid(plan, `${process.pid}\n`, tell)
    const { how, said, wasLate } = await process.ended
    standing = { state: 'waiting', sinceMs: clock.now(), how }
    writePid(plan, '', tell)
    if (wasLate) tell('was killed', `its stop took too long, see ${shortPath(plan.logFile)}`)
    return said ?? `${how}, see ${shortPath(plan.logFile)}`
  }
  const onEnd = async (reason: string, ends: number) => {
    ready.reject(new Abort('unavailable', `${plan.name} does not start: ${reason}`)) // no effect if it was ready before
    tell('ended', reason)
    return bell.wait(backoffMs(AGAIN, ends, random))
  }
  const now = () => (stopping.signal.aborted ? ENDED : standing)
  return {
    name: plan.name,
    standing: now,
    ...controlsOf({
      now,
      wasReady: () => wasReady,
      process: () => process!,
      bell,
      clock,
      become: (next) => (standing = next),
    }),
    start: async () => {
      kept ??= keepAlive(plan, { clock, tell, live, onEnd, stopping: stopping.signal })
      await Promise.race([ready.promise, kept])
    },
    stop: async () => {
      stopping.abort(new Error('the dev fleet stops'))
      process?.end()
      bell.ring()
      await kept
    },
  }
}

type Tell = (message: string, reason: string) => void

type Controlled = {
  readonly now: () => PodState
  /** Since the fleet started. */
  readonly wasReady: () => boolean
  readonly process: () => PodProcess
  readonly bell: Bell
  readonly clock: Clock
  readonly become: (standing: PodState) => void
}

function controlsOf({
  now,
  wasReady,
  process,
  bell,
  clock,
  become,
}: Controlled): Pick<DevPod, 'kill' | 'pause' | 'wake' | 'restart'> {
  const isOne = (...states: readonly PodState['state'][]) => states.includes(now().state)
  return {
    kill: () => {
      const can = isOne('ready', 'paused') // not 'starting': a click must not make the fleet's first start fail
      if (!can) return false
      become({ state: 'waiting', sinceMs: clock.now(), how: 'SIGKILL' })
      process().kill()
      return true
    },
    pause: () => {
      const was = now()
      if (was.state !== 'ready') return false
      const paused: PodState = { ...was, state: 'paused', untilMs: clock.now() + PAUSE_MS }
      become(paused)
      void process()
        .pause(PAUSE_MS)
        .then(() => now() === paused && become(was)) // unless it was killed in the meantime
      return true
    },
    wake: () => {
      const can = isOne('paused')
      if (can) process().wake()
      return can
    },
    restart: () => {
      const can = isOne('ready', 'paused', 'waiting') || (isOne('starting') && wasReady())
      if (!can) return false
      bell.ring()
      if (isOne('waiting')) return true
      become({ state: 'ending' })
      process().end()
      return true
    },
  }
}

type Kept = {
  readonly clock: Clock
  readonly tell: Tell
  readonly stopping: AbortSignal
  /** Runs the process once. Resolves to the reason of its end. */
  readonly live: (log: WriteStream) => Promise<string>
  /** Resolves when the pod may start again: true if somebody asked for it. */
  readonly onEnd: (reason: string, ends: number) => Promise<boolean>
}

/** Starts the process again and again until the fleet stops. */
async function keepAlive({ logFile }: PodPlan, { clock, tell, live, onEnd, stopping }: Kept): Promise<void> {
  const log = createWriteStream(logFile, { mode: 0o600 })
  log.once('error', ({ message: reason }) => tell('its log is not written', reason))
  for (let ends = 0; !stopping.aborted;) {
    const startMs = clock.monotonicMs()
    const reason = await live(log)
    if (stopping.aborted) break
    ends = clock.monotonicMs() - startMs > SETTLED_MS ? 0 : ends + 1
    const wasAsked = await onEnd(reason, ends)
    if (wasAsked) ends = 0
  }
  if (!log.destroyed) await promisify<void>((done) => log.end(done))().catch(() => undefined)
}

function writePid({ pidFile }: PodPlan, text: string, tell: Tell): void {
  try {
    writeFileSync(pidFile, text)
  } catch (error) {
    tell('the file of its process id is not written', String(error))
  }
}
