// fleetline dev: runs a fleet in this directory until it is asked to stop. A second request to stop ends it at once.
import { existsSync } from 'node:fs'
import { TASK_NAME } from '@fleetline/protocol'
import { PROTOCOLS } from '../agent/settings.ts'
import { flagOf, modelWishOf, settingIn } from '../config.ts'
import { Rejected } from '../errors.ts'
import { systemClock } from '../lib/clock.ts'
import { isLoopbackAddress } from '../lib/loopback.ts'
import { APP } from './app.ts'
import type { Command, CommandOptions } from './command.ts'
import { eventOf, showEvent } from './dev/events.ts'
import type { AgentWish } from './dev/answerer.ts'
import { choiceOf, wholeOf } from './options.ts'
import { EXIT } from './output.ts'
import { stopSignal } from './stop-signal.ts'

const DEFAULT_PODS = 2 // the fewest that show effects of several pods
const MOST_PODS = 16

export const DEV: Command = {
  name: 'dev',
  summary: 'Run a fleet for development on this machine: PostgreSQL, pods and a page. Ctrl-C stops it.',
  args: [APP],
  settings: ['databaseUrl', 'host', 'port', 'operatorPort', 'logLevel'],
  options: [
    ['--pods <number>', `the number of pods, from 1 to ${MOST_PODS} (default ${DEFAULT_PODS})`],
    [
      '--agent <url or name>',
      'your agent, which replies in new sessions and on the page: its URL, or its name if the app exports it',
    ],
    ['--protocol <name>', 'the protocol of your agent: ai-sdk (the default) or ag-ui'],
    ['--no-model', 'do not look for a model in the environment (OPENAI_API_KEY, …) and on this machine'],
  ],
  run: async ({ flags, args: [app], options, output }) => {
    if (app !== undefined && !existsSync(app))
      throw new Rejected('invalid', `${app} does not exist: name the module of your app`)
    const { value: host } = settingIn(flags, 'host')
    if (!isLoopbackAddress(host))
      throw new Rejected(
        'invalid',
        `fleetline dev needs no keys, so it listens on this machine only: ${flagOf('host')} cannot be ${host}. Use fleetline start`,
      )
    const clock = systemClock()
    const agent = agentOf(options['agent'], app)
    const agentProtocol = choiceOf('--protocol', options['protocol'], PROTOCOLS)
    if (agentProtocol !== undefined && agent?.url === undefined)
      throw new Rejected('invalid', '--protocol needs --agent URL')
    const count = wholeOf('--pods', options['pods'] ?? String(DEFAULT_PODS), { min: 1, max: MOST_PODS })
    const { createDevFleet } = await import('./dev/fleet.ts') // no other command needs this code
    const { findModel } = await import('./dev/model.ts')
    const isModelWanted = agent === undefined && options['model'] !== false
    const model = isModelWanted ? await findModel(modelWishOf()) : undefined
    const say = (message: string, fields = {}) =>
      showEvent(output, eventOf('fleet', message, { now: clock.now(), ...fields }))
    const fleet = createDevFleet({
      flags,
      app,
      agent,
      agentProtocol,
      model,
      count,
      output,
      clock,
    })
    const stop = stopSignal()
    const starting = fleet.start()
    starting.catch(() => undefined) // ignored once the user has asked to stop
    await Promise.race([starting, stop.first])
    if (!stop.isAsked()) say('ready')
    const signal = await stop.first
    say('stopping', { signal, reason: 'waiting for running replies; press Ctrl-C again to stop at once' })
    try {
      await fleet.stop()
    } catch (error) {
      process.exit(output.fail(error)) // whatever did not stop would keep the process alive
    }
    say('stopped')
    return EXIT.done
  },
}

function agentOf(text: CommandOptions[string], app: string | undefined): AgentWish | undefined {
  if (typeof text !== 'string') return undefined
  if (/^https?:\/\//.test(text) && URL.canParse(text)) return { url: text }
  if (TASK_NAME.test(text) && app !== undefined) return { name: text }
  throw new Rejected(
    'invalid',
    app === undefined
      ? '--agent must be a URL that begins with http:// or https://. To name an agent in code, give the app that exports it'
      : `--agent must be a URL that begins with http:// or https://, or the name of an agent that ${app} exports`,
  )
}
