// Restarts the pods of a dev fleet when the app changes, one after the other. It watches the source files in the app's folder and
// below, but not in node_modules, hidden folders, and folders for what is built. A file that the app imports from elsewhere is not
// watched, and a new folder only after the next start. If a pod does not start with the new app, the other pods keep the old one.
import { readdirSync, watch, type FSWatcher } from 'node:fs'
import { dirname, extname, join, resolve } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { eventOf, type OnEvent } from './events.ts'
import type { DevPod } from './pods.ts'

type Deps = {
  readonly app: string
  readonly pods: readonly DevPod[]
  readonly clock: Clock
  readonly onEvent: OnEvent
}
type Tell = (message: string, fields: object) => void

const SOURCES = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs'] // not .json: an app may write it
const SKIPPED = ['node_modules', 'dist', 'build', 'coverage']
const MOST_FOLDERS = 500
const SETTLE_MS = 200 // an editor writes a file in several steps
const LOOK_MS = 100
const START_MS = 30_000

export function createAppWatch({ app, pods, clock, onEvent }: Deps): Service {
  const stopping = new AbortController()
  let watchers: readonly FSWatcher[] = []
  let [changed, running]: [string?, Promise<void>?] = []
  const tell: Tell = (message, fields) => onEvent(eventOf('fleet', message, { now: clock.now(), ...fields }))
  const startsAgain = async (pod: DevPod): Promise<boolean> => {
    while (!pod.restart()) await clock.sleep(LOOK_MS, stopping.signal)
    let sinceMs = clock.monotonicMs()
    for (let wasStarting = false; clock.monotonicMs() - sinceMs < START_MS;) {
      await clock.sleep(LOOK_MS, stopping.signal)
      const { state } = pod.standing()
      if (state === 'ending') sinceMs = clock.monotonicMs() // its drain may take longer than a start
      if (state === 'ready') return true
      if (changed !== undefined || (state === 'waiting' && wasStarting)) return false
      wasStarting ||= state === 'starting'
    }
    return false
  }
  const restartAll = async () => {
    for (const pod of pods) {
      if (await startsAgain(pod)) continue
      if (changed === undefined)
        tell('the app does not start: the other pods keep the old one', { level: 'warn', pod: pod.name })
      return
    }
  }
  const follow = async () => {
    while (changed !== undefined) {
      await clock.sleep(SETTLE_MS, stopping.signal)
      const file = changed
      changed = undefined
      tell('the app has changed: the pods restart', { file })
      await restartAll()
    }
  }
  const onChange = (file: string) => {
    changed = file
    running ??= follow()
      .catch(() => undefined) // the fleet stops
      .finally(() => (running = undefined))
  }
  return {
    name: 'app watch',
    start: async () => {
      watchers = watchAll(dirname(resolve(app)), onChange, tell)
    },
    stop: async () => {
      stopping.abort()
      for (const watcher of watchers) watcher.close()
      await running
    },
  }
}

function watchAll(root: string, onChange: (file: string) => void, tell: Tell): FSWatcher[] {
  const watchers: FSWatcher[] = []
  const folders = [root]
  let reason: string | undefined
  for (const folder of folders) {
    if (watchers.length === MOST_FOLDERS) {
      reason = `only ${MOST_FOLDERS} folders are watched`
      break
    }
    try {
      watchers.push(watchOne(folder, onChange))
      folders.push(...foldersIn(folder))
    } catch (error) {
      reason = String(error) // the folder cannot be read, or there are too many watches on this machine
    }
  }
  if (reason !== undefined)
    tell('not every folder of the app is watched: restart after an edit there', { level: 'warn', reason })
  return watchers
}

function watchOne(folder: string, onChange: (file: string) => void): FSWatcher {
  const watcher = watch(folder, (_, file) => {
    if (file !== null && !file.startsWith('.') && SOURCES.includes(extname(file))) onChange(file)
  })
  return watcher.on('error', () => watcher.close()) // its folder is gone
}

function foldersIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !SKIPPED.includes(entry.name) && !entry.name.startsWith('.'))
    .map(({ name }) => join(folder, name))
}
