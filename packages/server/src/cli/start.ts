// fleetline start: runs one pod in this process until it is asked to stop, with the exports of an app if one is given. A
// second request to stop ends it at once.
import { loadConfig, POD_SETTINGS } from '../config.ts'
import { APP, loadApp, namesIn } from './app.ts'
import type { CommandCall, Command } from './command.ts'
import { EXIT } from './output.ts'
import { outliveStdout } from './stdout.ts'
import { stopSignal } from './stop-signal.ts'

export const START: Command = {
  name: 'start',
  summary: 'Run a pod. Its log is JSON on stdout; SIGTERM or Ctrl-C stops it.',
  args: [APP],
  settings: POD_SETTINGS,
  // The app may keep the process alive (a timer, a connection, a running handler), so the process exits when the pod has ended.
  run: async (call) =>
    process.exit(await untilStopped(call).catch((error: unknown) => call.output.fail(error))),
}

async function untilStopped({ flags, args: [path] }: CommandCall): Promise<number> {
  outliveStdout() // before the app is loaded, because it may print
  const config = loadConfig({ flags })
  const app = path === undefined ? { agents: [] } : await loadApp(path) // an empty list, so that the pod runs turns: ADR 0018
  // Loaded on demand, because other commands start in half the time without it.
  const [{ createPod }, { createLog }] = await Promise.all([
    import('../pod.ts'),
    import('../telemetry/log.ts'),
  ])
  const log = createLog({ level: config.logLevel })
  const pod = createPod(config, { log, ...app })
  if (path !== undefined) log.info('loaded', { data: namesIn(app) })
  const stop = stopSignal()
  const starting = pod.start()
  starting.catch(() => undefined) // ignored once the user has asked to stop
  await Promise.race([starting, stop.first]) // a start that fails stops what it has started
  if (!stop.isAsked()) {
    log.info('ready', { port: pod.ports().gateway })
    process.send?.(pod.ports(), undefined, undefined, () => undefined) // tells `fleetline dev`, if that started us
  }
  log.info('stopping', { signal: await stop.first })
  try {
    await pod.stop()
  } catch (error) {
    log.error('did not stop cleanly', { error })
    return EXIT.failed
  }
  log.info('stopped')
  return EXIT.done
}
