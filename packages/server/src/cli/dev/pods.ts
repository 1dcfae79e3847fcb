// The pods of a dev fleet: child processes that run `fleetline start`. Their JSON logs go to a file each and, line by
// line, to `onEvent`. Each is in a process group of its own, so that Ctrl-C reaches the fleet alone, and stops by
// itself when its channel to us closes.
//   state      becomes
//   starting   ready, when the pod says so over the channel; the fleet's start fails, if its first life ends before that
//   ready      waiting, when the process ends
//   waiting    starting, after a wait that grows while it keeps ending soon
//   any        ended, when the fleet stops: SIGTERM, and SIGKILL if that takes too long
import { fork, type ChildProcess } from 'node:child_process'
import { createWriteStream, writeFileSync, type WriteStream } from 'node:fs'
import { extname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { environmentWith, type Flags } from '../../config.ts'
import { Abort } from '../../errors.ts'
import { backoffMs } from '../../lib/backoff.ts'
import { within, type Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Random } from '../../lib/random.ts'
import { eventOf, parseEvent, type OnEvent } from './events.ts'
import { shortPath } from './folder.ts'

export type Ports = { readonly gateway: number; readonly admin: number }
export type Pods = Service & {
  /** Of those that are ready now. */
  live(): readonly Ports[]
}
export type PodPlan = {
  readonly name: string
  readonly app: string | undefined
  readonly settings: () => Flags
  readonly logFile: string
  /** Holds the id of its process, and nothing between its lives: for people who want to see it killed. */
  readonly pidFile: string
}

type Deps = { readonly clock: Clock; readonly random: Random; readonly onEvent: OnEvent }
type Pod = Service & { live(): Ports | undefined }

// The sources in a clone, the built files in a package.
const MAIN = fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url))
const AGAIN = { baseMs: 1_000, capMs: 10_000 }
const SETTLED_MS = 10_000 // after a life as long as this the next end counts as the first
const STOP_MS = 15_000

export function createPods(plans: readonly PodPlan[], deps: Deps): Pods {
  const pods = plans.map((plan) => createPod(plan, deps))
  return {
    name: 'pods',
    live: () => pods.flatMap((pod) => pod.live() ?? []),
    start: async () => void (await Promise.all(pods.map((pod) => pod.start()))),
    stop: async () => void (await Promise.all(pods.map((pod) => pod.stop()))),
  }
}

function createPod(plan: PodPlan, { clock, random, onEvent }: Deps): Pod {
  const stopping = new AbortController()
  const ready = Promise.withResolvers<void>()
  let live: Ports | undefined
  let kept: Promise<void> | undefined

  const tell = (message: string, reason: string) =>
    onEvent(eventOf(plan.name, message, { level: 'warn', reason, now: clock.now() }))
  const writePid = (text: string) => {
    try {
      writeFileSync(plan.pidFile, text)
    } catch (error) {
      tell('the file of its process id is not written', String(error))
    }
  }
  const liveOnce = async (log: WriteStream): Promise<string> => {
    const child = forkPod(plan)
    const closed = endOf(child)
    const gaveUp = follow(child, { log, name: plan.name, onEvent })
    child.on('message', (ports: Ports) => {
      live = ports
      ready.resolve()
    })
    writePid(`${child.pid}\n`)
    const end = () => void endChild(child, closed, clock)
    stopping.signal.addEventListener('abort', end, { once: true })
    if (stopping.signal.aborted) end()
    const how = await closed
    stopping.signal.removeEventListener('abort', end)
    live = undefined
    writePid('')
    return gaveUp() ?? `${how}, see ${shortPath(plan.logFile)}`
  }

  const keep = async () => {
    const log = createWriteStream(plan.logFile, { mode: 0o600 })
    log.once('error', ({ message: reason }) => tell('its log is not written', reason))
    for (let ends = 0; !stopping.signal.aborted;) {
      const startMs = clock.monotonicMs()
      const reason = await liveOnce(log)
      if (stopping.signal.aborted) break
      ready.reject(new Abort('unavailable', `${plan.name} does not start: ${reason}`)) // nothing, once it was ready
      ends = clock.monotonicMs() - startMs > SETTLED_MS ? 0 : ends + 1
      tell('ended', reason)
      await clock.sleep(backoffMs(AGAIN, ends, random), stopping.signal).catch(() => undefined)
    }
    if (!log.destroyed) await promisify<void>((done) => log.end(done))().catch(() => undefined)
  }

  return {
    name: plan.name,
    live: () => (stopping.signal.aborted ? undefined : live),
    start: async () => {
      kept ??= keep()
      await Promise.race([ready.promise, kept])
    },
    stop: async () => {
      stopping.abort(new Error('the dev fleet stops'))
      await kept
    },
  }
}

function forkPod({ app, settings }: PodPlan): ChildProcess {
  return fork(MAIN, ['start', ...(app === undefined ? [] : [app])], {
    env: environmentWith(settings()),
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
}

type Follower = { readonly name: string; readonly log: WriteStream; readonly onEvent: OnEvent }

/** Answers why it gave up, if it said so. */
function follow(child: ChildProcess, { name, log, onEvent }: Follower): () => string | undefined {
  let reason: string | undefined
  createInterface({ input: child.stdout! }).on('line', (line) => {
    log.write(`${line}\n`)
    const event = parseEvent(line, name)
    if (event && event.level !== 'debug' && event.message !== 'listening') onEvent(event)
  })
  createInterface({ input: child.stderr! }).on('line', (line) => {
    log.write(`${line}\n`)
    reason = /^fleetline: (.*)/.exec(line)?.[1] ?? reason
  })
  return () => reason
}

/** How it ended; one that could not be started has ended, too. */
function endOf(child: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  child.on('error', ({ message }) => resolve(message))
  child.once('close', (code, signal) => resolve(signal ?? `exit ${code}`))
  return promise
}

async function endChild(child: ChildProcess, closed: Promise<unknown>, clock: Clock): Promise<void> {
  child.kill('SIGTERM')
  await within(clock, STOP_MS, closed, new Error('late')).catch(() => child.kill('SIGKILL'))
}
