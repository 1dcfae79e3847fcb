// A dev fleet, read top to bottom: its directory, PostgreSQL, the migrations, a port in front of either door, the pods, a
// session to talk in.
import { join } from 'node:path'
import { describeConfig, loadConfig, type Flags } from '../../config.ts'
import { Rejected, Retry } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { compose, type Service } from '../../lib/lifecycle.ts'
import { systemRandom } from '../../lib/random.ts'
import { ownVersion } from '../../lib/version.ts'
import { migrateUp } from '../../store/migrate.ts'
import type { Output } from '../output.ts'
import { eventOf, showEvent, showPanel, type OnEvent } from './events.ts'
import { createFolder, shortPath } from './folder.ts'
import { createFront, type Front } from './front.ts'
import { createPods, type Ports } from './pods.ts'
import { createPostgres } from './postgres.ts'

type Wish = {
  readonly flags: Flags
  /** What its pods run, if anything. */
  readonly app: string | undefined
  readonly count: number
  readonly output: Output
  readonly clock: Clock
}

const NEXT_POD = 10 // pods listen on 4410 and 4411, 4420 and 4421, … if the fleet does on 4400 and 4401
const POSTGRES = 32 // and its PostgreSQL on 4432
const DRAIN_MS = '5000' // whoever pressed Ctrl-C waits
const LAST_PORT = 65_535
const DEMO = 'demo'
const [TRIES, AGAIN_MS] = [5, 200] // its alias makes a repeat harmless
const DEMO_SESSION = { alias: DEMO, agent: 'demo', title: 'Demo' }
const SPARE_SESSIONS = 10 // of each pod for hints, and for people with psql

export function createFleet({ flags, app, count, output, clock }: Wish): Service {
  const [config, random] = [loadConfig({ flags }), systemRandom()]
  const given = describeConfig({ flags }).find(({ setting }) => setting === 'databaseUrl')!
  const ports = portsOf(config, count)
  const onEvent: OnEvent = (event) => showEvent(output, event)

  const folder = createFolder(join(process.cwd(), '.fleetline'))
  const connections = (config.poolSize + SPARE_SESSIONS) * (count + 1)
  const postgres =
    given.source === 'default'
      ? createPostgres({ folder, clock, random, connections, port: ports.postgres, onEvent })
      : undefined
  const urlOf = () => postgres?.url() ?? config.databaseUrl
  const migrations = migrate(urlOf)
  const plans = ports.pods.map(({ gateway, admin }, index) => ({
    name: `pod-${index + 1}`,
    app,
    logFile: folder.at(`pod-${index + 1}.log`),
    pidFile: folder.at(`pod-${index + 1}.pid`),
    settings: () => ({
      databaseUrl: urlOf(),
      podName: `pod-${index + 1}`,
      host: config.host,
      port: String(gateway),
      operatorPort: String(admin),
      logLevel: config.logLevel,
      drainMs: DRAIN_MS,
      demoAgent: 'yes',
    }),
  }))
  const pods = createPods(plans, { clock, random, onEvent })
  const front = (name: keyof Ports) => {
    const targets = () => pods.live().map((live) => live[name])
    return createFront({ name, host: config.host, port: ports[name], random, targets })
  }
  const [gateway, admin] = [front('gateway'), front('admin')]
  const panel = () =>
    showPanel(output, {
      version: ownVersion(),
      api: `http://localhost:${gateway.port()}/v1`,
      operator: `http://localhost:${admin.port()}`,
      postgres: postgres?.description() ?? given.value,
      pods: count,
      logs: shortPath(folder.at('pod-N.log')),
      pids: shortPath(folder.at('pod-N.pid')),
      session: DEMO,
    })

  const demo = demoSession({ front: gateway, clock, onEvent })
  const ground = postgres ? [folder, postgres] : [folder]
  const shown = { name: 'panel', start: async () => panel(), stop: async () => undefined }
  return compose('dev fleet', [...ground, migrations, gateway, admin, shown, pods, demo])
}

function migrate(urlOf: () => string): Service {
  const stopping = new AbortController()
  return {
    name: 'migrations',
    start: async () => void (await migrateUp({ url: urlOf(), signal: stopping.signal })),
    stop: async () => stopping.abort(),
  }
}

type Asking = { readonly front: Front; readonly clock: Clock; readonly onEvent: OnEvent }

/** Made at the first start; without it the fleet is as good as any. */
function demoSession({ front, clock, onEvent }: Asking): Service {
  // Loaded when it is wanted: every other command answers in less time without it.
  const ask = async () => {
    const [{ createApi }, { sessionSchema }] = await Promise.all([
      import('../api.ts'),
      import('../../gateway/session-schemas.ts'),
    ])
    const asked = { method: 'POST', path: '/sessions', body: DEMO_SESSION, answer: sessionSchema } as const
    const api = createApi(`http://localhost:${front.port()}`, clock)
    for (let left = TRIES; ; left -= 1) {
      try {
        return await api.ask(asked)
      } catch (error) {
        if (left === 1 || !(error instanceof Retry)) throw error
        await clock.sleep(AGAIN_MS)
      }
    }
  }
  const onRefused = ({ message: reason }: Error) =>
    onEvent(eventOf('fleet', 'the demo session was not made', { now: clock.now(), level: 'warn', reason }))
  return {
    name: 'demo session',
    start: async () => void (await ask().catch(onRefused)),
    stop: async () => undefined,
  }
}

type Wanted = { readonly port: number; readonly operatorPort: number }

/** All that it listens on; 0, which takes any that is free, stays 0. */
function portsOf({ port, operatorPort }: Wanted, count: number): Ports & { postgres: number; pods: Ports[] } {
  const at = (base: number, distance: number) => (base === 0 ? 0 : base + distance)
  const pods = Array.from({ length: count }, (_, index) => ({
    gateway: at(port, (index + 1) * NEXT_POD),
    admin: at(operatorPort, (index + 1) * NEXT_POD),
  }))
  const postgres = at(port, POSTGRES)
  const all = [port, operatorPort, postgres, ...pods.flatMap(({ gateway, admin }) => [gateway, admin])]
  const taken = all.filter((one) => one !== 0)
  if (new Set(taken).size === taken.length && Math.max(...all) <= LAST_PORT)
    return { gateway: port, admin: operatorPort, postgres, pods }
  throw new Rejected(
    'invalid',
    `Pods listen ${NEXT_POD}, ${2 * NEXT_POD}, … above --port and --operator-port, PostgreSQL ${POSTGRES} above --port: choose two ports for which all of these differ and are at most ${LAST_PORT}`,
  )
}
