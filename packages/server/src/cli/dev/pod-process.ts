// One process of a dev fleet's pod: a child that runs `fleetline start`. Its JSON log goes to a stream and, line by line, to
// `onEvent`. It has its own process group, so that Ctrl-C reaches only the fleet. It stops by itself when its channel to us
// closes; if it is paused then, it is woken.
import { fork, spawn, type ChildProcess } from 'node:child_process'
import type { WriteStream } from 'node:fs'
import { extname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { bareEnvironment, environmentWith, type Flags } from '../../config.ts'
import { within, type Clock } from '../../lib/clock.ts'
import { parseEvent, type OnEvent } from './events.ts'

export type Ports = { readonly gateway: number; readonly admin: number }

export type PodProcess = {
  readonly pid: number | undefined
  readonly ended: Promise<Ending>
  kill(): void
  /** Asks the process to stop, and kills it if that takes longer than a stop may. */
  end(): void
  /** Resolves when the pause is over: after `ms`, or when the process is woken or has ended. */
  pause(ms: number): Promise<void>
  wake(): void
}

/** The signal or the exit code, the reason in the process's own words if it gave up, and whether its stop took too long. */
type Ending = { readonly how: string; readonly said: string | undefined; readonly wasLate: boolean }

type ProcessPlan = {
  readonly name: string
  readonly app: string | undefined
  readonly settings: Flags
  /** How long the pod's stop takes at most. */
  readonly stopMs: number
}
type Deps = {
  readonly clock: Clock
  readonly log: WriteStream
  readonly onEvent: OnEvent
  readonly onReady: (ports: Ports) => void
}

// The TypeScript source in a clone, the built file in a package.
const MAIN = fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url))
const SPARE_MS = 5_000 // for the end of the process, after the stop of its pod

// A stopped process cannot notice that we are gone. So another process wakes it: after a time, or when its input closes.
const PAUSE = `exec 3<&0; kill -STOP $1 || exit 0; sleep $2 & nap=$!
{ read -r _ <&3; kill $nap; } 2>/dev/null & watcher=$!
wait $nap; kill -CONT $1; kill $watcher 2>/dev/null`

export function startPodProcess(plan: ProcessPlan, { clock, log, onEvent, onReady }: Deps): PodProcess {
  const child = fork(MAIN, ['start', ...(plan.app === undefined ? [] : [plan.app])], {
    env: environmentWith(plan.settings),
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const gaveUp = follow(child, { log, name: plan.name, onEvent })
  let [pause, isEnding, wasLate]: [ChildProcess?, boolean?, boolean?] = []
  const ended = endOf(child).then((how) => ({ how, said: gaveUp(), wasLate: wasLate === true }))
  child.on('message', onReady)
  const wake = () => void pause?.stdin?.end()
  void ended.then(wake)
  return {
    pid: child.pid,
    ended,
    kill: () => void child.kill('SIGKILL'),
    end: () => {
      if (isEnding) return // a second request would end it at once
      isEnding = true
      wake()
      child.kill('SIGTERM')
      within(clock, plan.stopMs + SPARE_MS, ended, new Error('late')).catch(() => {
        wasLate = child.kill('SIGKILL')
      })
    },
    pause: async (ms) => {
      const words = ['-c', PAUSE, 'pause', String(child.pid), String(ms / 1_000)]
      pause = spawn('sh', words, {
        env: bareEnvironment(),
        detached: true,
        stdio: ['pipe', 'ignore', 'ignore'],
      })
      pause.stdin?.on('error', () => undefined) // it may have ended
      await endOf(pause) // resolves at once if it could not be started
      wake()
    },
    wake,
  }
}

type Follower = { readonly name: string; readonly log: WriteStream; readonly onEvent: OnEvent }

/** The returned function gives the reason why the process gave up, if it said so. */
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

/** Resolves also for a process that could not be started. */
function endOf(child: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  child.on('error', ({ message }) => resolve(message))
  child.once('close', (code, signal) => resolve(signal ?? `exit ${code}`))
  return promise
}
