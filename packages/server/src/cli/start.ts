// fleetline start: one pod in this process, with what an app exports if it is given one, until it is asked to stop. A
// second request to stop is not waited for.
import { loadConfig, POD_SETTINGS } from '../config.ts'
import { APP, loadApp } from './app.ts'
import type { CommandCall, Command } from './command.ts'
import { EXIT } from './output.ts'
import { stopSignal } from './stop-signal.ts'

export const START: Command = {
  name: 'start',
  summary: 'Run a pod. Its log is JSON on stdout; SIGTERM or Ctrl-C stops it.',
  args: [APP],
  settings: POD_SETTINGS,
  // The app may hold the process: a timer, a connection, a handler that goes on. It ends when the pod does.
  run: async (call) =>
    process.exit(await untilStopped(call).catch((error: unknown) => call.output.fail(error))),
}

async function untilStopped({ flags, args: [path] }: CommandCall): Promise<number> {
  const config = loadConfig({ flags })
  const app = path === undefined ? { agents: [] } : await loadApp(path) // a list, so that it takes turns: ADR 0018
  // Loaded when it is wanted: every other command answers in half the time without it.
  const [{ createPod }, { createLog }] = await Promise.all([
    import('../pod.ts'),
    import('../telemetry/log.ts'),
  ])
  const log = createLog({ level: config.logLevel })
  const pod = createPod(config, { log, ...app })
  const stop = stopSignal()
  const starting = pod.start()
  starting.catch(() => undefined) // of no interest once it is asked to stop
  await Promise.race([starting, stop.first]) // a start that failed has stopped what it had started
  if (!stop.isAsked()) {
    log.info('ready', { port: pod.ports().gateway })
    process.send?.(pod.ports(), undefined, undefined, () => undefined) // to `fleetline dev`, if it is there
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
