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
import { sessionSchema } from '../../gateway/session-schemas.ts'
import { createApi } from '../api.ts'
import type { Output } from '../output.ts'
import { eventOf, showEvent, showPanel, type OnEvent } from './events.ts'
import { createFolder, shortPath, type Folder } from './folder.ts'
import { createFront, type Front } from './front.ts'
import type { Ports } from './pod-process.ts'
import { createFleetPage } from './page/page.ts'
import { createPods, type PodPlan } from './pods.ts'
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
const PAGE = 2 // the page on 4402
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
  const onEvent: OnEvent = (event) => {
    showEvent(output, event)
    page.take(event)
  }

  const folder = createFolder(join(process.cwd(), '.fleetline'))
  const connections = (config.poolSize + SPARE_SESSIONS) * (count + 1)
  const postgres =
    given.source === 'default'
      ? createPostgres({ folder, clock, random, connections, port: ports.postgres, onEvent })
      : undefined
  const urlOf = () => postgres?.url() ?? config.databaseUrl
  const migrations = migrate(urlOf)
  const shared = {
    host: config.host,
    logLevel: config.logLevel,
    drainMs: DRAIN_MS,
    demoAgent: 'yes',
  }
  const plans = ports.pods.map((ports, index) =>
    planOf(`pod-${index + 1}`, { app, folder, ports, settings: () => ({ ...shared, databaseUrl: urlOf() }) }),
  )
  const pods = createPods(plans, { clock, random, onEvent })
  const front = (name: keyof Ports) => {
    const targets = () => pods.live().map((live) => live[name])
    return createFront({ name, host: config.host, port: ports[name], random, targets })
  }
  const [gateway, admin] = [front('gateway'), front('admin')]
  const panel = () =>
    showPanel(output, {
      version: ownVersion(),
      page: originOf(page),
      api: `${originOf(gateway)}/v1`,
      operator: originOf(admin),
      postgres: postgres?.description() ?? given.value,
      pods: count,
      logs: shortPath(folder.at('pod-N.log')),
      pids: shortPath(folder.at('pod-N.pid')),
      session: DEMO,
    })

  const page = createFleetPage({
    host: config.host,
    port: ports.page,
    session: DEMO,
    clock,
    random,
    pods,
    about: () => ({
      version: ownVersion(),
      postgres: postgres ? `PostgreSQL ${postgres.version()}` : given.value,
      ttlMs: config.ttlMs,
    }),
    onEvent,
  })
  const demo = demoSession({ front: gateway, clock, onEvent })
  const ground = postgres ? [folder, postgres] : [folder]
  const shown = { name: 'panel', start: async () => panel(), stop: async () => undefined }
  return compose('dev fleet', [...ground, migrations, gateway, admin, page, shown, pods, demo])
}

type Planned = {
  readonly app: string | undefined
  readonly folder: Folder
  readonly ports: Ports
  readonly settings: () => Flags
}

function planOf(name: string, { app, folder, ports, settings }: Planned): PodPlan {
  const own = { podName: name, port: String(ports.gateway), operatorPort: String(ports.admin) }
  return {
    name,
    app,
    logFile: folder.at(`${name}.log`),
    pidFile: folder.at(`${name}.pid`),
    settings: () => ({ ...settings(), ...own }),
  }
}

function originOf(door: { port(): number }): string {
  return `http://localhost:${door.port()}`
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
  const ask = async () => {
    const asked = { method: 'POST', path: '/sessions', body: DEMO_SESSION, answer: sessionSchema } as const
    const api = createApi(originOf(front), clock)
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
function portsOf(
  { port, operatorPort }: Wanted,
  count: number,
): Ports & { page: number; postgres: number; pods: Ports[] } {
  const at = (base: number, distance: number) => (base === 0 ? 0 : base + distance)
  const pods = Array.from({ length: count }, (_, index) => ({
    gateway: at(port, (index + 1) * NEXT_POD),
    admin: at(operatorPort, (index + 1) * NEXT_POD),
  }))
  const [page, postgres] = [at(port, PAGE), at(port, POSTGRES)]
  const all = [port, operatorPort, page, postgres, ...pods.flatMap(({ gateway, admin }) => [gateway, admin])]
  const taken = all.filter((one) => one !== 0)
  if (new Set(taken).size === taken.length && Math.max(...all) <= LAST_PORT)
    return { gateway: port, admin: operatorPort, page, postgres, pods }
  throw new Rejected(
    'invalid',
    `Pods listen ${NEXT_POD}, ${2 * NEXT_POD}, … above --port and --operator-port, the page ${PAGE} and PostgreSQL ${POSTGRES} above --port: choose two ports for which all of these differ and are at most ${LAST_PORT}`,
  )
}
