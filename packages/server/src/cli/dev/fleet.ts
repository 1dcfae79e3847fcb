// Builds a dev fleet, in the order in which its parts start: its directory, PostgreSQL, the migrations, a port in front of each
// of the pods' two doors, the page, the pods, and an agent to talk to.
import { join } from 'node:path'
import { longestStopMs } from '../../admin/draining.ts'
import { invocationOf, loadConfig, settingIn, type Config, type Flags } from '../../config.ts'
import { Rejected, Retry } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { hostOf } from '../../lib/hosts.ts'
import { INSECURE_NAMES } from '../../lib/insecure.ts'
import { compose, type Service } from '../../lib/lifecycle.ts'
import { systemRandom, type Random } from '../../lib/random.ts'
import { ownVersion } from '../../lib/version.ts'
import { MAY_BE_INSECURE } from '../../safety/start-check.ts'
import { migrateUp } from '../../store/migrate.ts'
import type { Output } from '../output.ts'
import { warnOfOpenConnection } from '../tls-warning.ts'
import { answererFor, DEMO, type AgentWish, type Answerer } from './answerer.ts'
import { createAppWatch } from './app-watch.ts'
import { showEvent, showPanel, type OnEvent } from './events.ts'
import { createFolder, DEV_FOLDER, shortPath, type Folder } from './folder.ts'
import { createFront } from './front.ts'
import type { Ports } from './pod-process.ts'
import { createFleetPage } from './page/page.ts'
import type { Model } from './model.ts'
import { createPods, type PodPlan } from './pods.ts'
import { createPostgres } from './postgres.ts'
import { createDevToken } from './token.ts'
import type { Protocol } from '../../agent/settings.ts'
import { createTalk } from './talk.ts'

type Wish = {
  readonly flags: Flags
  /** The module that the pods run, if any. */
  readonly app: string | undefined
  /** Your agent, if you have named one. */
  readonly agent: AgentWish | undefined
  /** What it speaks; undefined: as the AI SDK does. */
  readonly agentProtocol: Protocol | undefined
  /** The model that answers, if there is one. */
  readonly model: Model | undefined
  readonly count: number
  readonly output: Output
  readonly clock: Clock
}

const NEXT_POD = 10 // pods listen on 4410 and 4411, 4420 and 4421, … if the fleet listens on 4400 and 4401
const PAGE = 2 // the page on 4402
const MODEL = 3 // the model's agent on 4403
const POSTGRES = 32 // its PostgreSQL on 4432
const DRAIN_MS = 15_000 // short, because the user waits after Ctrl-C
const PATIENCE = { agentFirstMs: '600000', agentSilenceMs: '600000' } // a local model may take minutes to load
const OWN_POSTGRES =
  'To let fleetline dev start its own PostgreSQL, unset DATABASE_URL and leave out --database-url'
// For one developer: local callers need no key, the token keys are made here, and a database that --database-url names may be any.
const DEV_IS_INSECURE = INSECURE_NAMES.filter(
  (name) => name !== 'origins' && name !== 'postgres-version',
).join()
const LAST_PORT = 65_535
const SPARE_SESSIONS = 10 // more per pod: for hints, and for people with psql

export function createDevFleet({
  flags,
  app,
  agent,
  agentProtocol,
  model,
  count,
  output,
  clock,
}: Wish): Service {
  const [config, random] = [loadConfig({ flags }), systemRandom()]
  const { host, logLevel } = config
  const ports = portsOf(config, count)
  const onEvent: OnEvent = (event) => {
    if (event.message === MAY_BE_INSECURE) return // the panel already says that this fleet is not for production
    showEvent(output, event)
    page.take(event)
  }
  const around = { clock, random, onEvent }
  const ground = groundOf({ flags, config, count, port: ports.postgres, ...around })
  const { folder } = ground
  if (ground.hasGivenUrl) warnOfOpenConnection(config.databaseUrl, output)
  const migrations = migrate(ground)
  const { stopMs } = config
  const drainMs = settingIn(flags, 'drainMs').source === 'default' ? DRAIN_MS : config.drainMs
  const unreadyMs = 0 // the ports in front of the pods know at once that one stops
  const settings = () => ({
    host,
    logLevel,
    drainMs: String(drainMs),
    unreadyMs: String(unreadyMs),
    demoAgent: 'yes',
    allowInsecure: DEV_IS_INSECURE,
    databaseUrl: ground.url(),
    ...(config.secretsKey ? {} : { secretsKey: folder.secret('secrets-key', () => newKey(random)) }),
    ...(config.tokenKeys.length > 0
      ? {}
      : { tokenKeys: folder.secret('token-keys', () => `dev:${newKey(random)}`) }),
    corsOrigins: settingIn(flags, 'corsOrigins').value || 'loopback',
    agentHosts: [settingIn(flags, 'agentHosts').value, hostsAround(agent?.url)].filter(Boolean).join(','),
    ...(model && PATIENCE),
  })
  const planned = { app, folder, settings, stopMs: longestStopMs({ unreadyMs, drainMs, stopMs }) }
  const plans = ports.pods.map((ports, index) => planOf(`pod-${index + 1}`, { ...planned, ports }))
  const pods = createPods(plans, around)
  const front = (name: keyof Ports) => {
    const targets = () => pods.live().map((live) => live[name])
    return createFront({ name, host, port: ports[name], random, targets })
  }
  const [gateway, admin] = [front('gateway'), front('admin')]
  const { answerer, services: behind } = answererFor({
    agent,
    agentProtocol,
    model,
    folder,
    port: ports.model,
    ...around,
  })
  const talk = createTalk({ answerer, origin: () => originOf(gateway), ...around })
  const page = createFleetPage({
    host,
    port: ports.page,
    session: answerer.name,
    pods,
    isReady: () => talk.isTried(),
    about: () => ({ version: ownVersion(), postgres: ground.title(), ttlMs: config.ttlMs }),
    ...around,
  })
  const panel = () =>
    showPanel(output, {
      version: ownVersion(),
      command: invocationOf(),
      page: pageOf(originOf(page), answerer),
      api: `${originOf(gateway)}/v1`,
      operator: originOf(admin),
      postgres: ground.description(),
      pods: count,
      logs: shortPath(folder.at('pod-N.log')),
      pids: shortPath(folder.at('pod-N.pid')),
      session: answerer.name,
      agent: answerer.describe(),
    })
  const shown = { name: 'panel', start: async () => panel(), stop: async () => undefined }
  return compose('dev fleet', [
    ...ground.services,
    migrations,
    gateway,
    admin,
    page,
    shown,
    ...behind,
    pods,
    ...(app === undefined ? [] : [createAppWatch({ app, pods: pods.all, clock, onEvent })]),
    talk,
    createDevToken({ origin: () => originOf(gateway), output, ...around }),
  ])
}

type Ground = {
  readonly folder: Folder
  readonly services: readonly Service[]
  readonly url: () => string
  /** The user gave a database URL. Otherwise, fleetline dev starts its own PostgreSQL. */
  readonly hasGivenUrl: boolean
  /** Describes PostgreSQL: the title is for the page, the description for the panel. */
  readonly title: () => string
  readonly description: () => string
}
type GroundWish = {
  readonly flags: Flags
  readonly config: Config
  readonly count: number
  readonly port: number
  readonly clock: Clock
  readonly random: Random
  readonly onEvent: OnEvent
}

/** The fleet's directory and PostgreSQL: its own, unless a database URL was given. */
function groundOf({ flags, config, count, ...rest }: GroundWish): Ground {
  const folder = createFolder(join(process.cwd(), DEV_FOLDER))
  const given = settingIn(flags, 'databaseUrl')
  if (given.source !== 'default') {
    const said = () => given.value
    const url = () => config.databaseUrl
    return { folder, services: [folder], url, hasGivenUrl: true, title: said, description: said }
  }
  const connections = (config.poolSize + SPARE_SESSIONS) * (count + 1)
  const postgres = createPostgres({ folder, connections, ...rest })
  return {
    folder,
    services: [folder, postgres],
    url: () => postgres.url(),
    hasGivenUrl: false,
    title: () => `PostgreSQL ${postgres.version()}`,
    description: () => postgres.description(),
  }
}

type Planned = {
  readonly app: string | undefined
  readonly folder: Folder
  readonly ports: Ports
  readonly settings: () => Flags
  readonly stopMs: number
}

function planOf(name: string, { app, folder, ports, settings, stopMs }: Planned): PodPlan {
  const own = { podName: name, port: String(ports.gateway), operatorPort: String(ports.admin) }
  return {
    name,
    app,
    stopMs,
    logFile: folder.at(`${name}.log`),
    pidFile: folder.at(`${name}.pid`),
    settings: () => ({ ...settings(), ...own }),
  }
}

/** The hosts that pods may call for agents: this machine, because its user owns it, and the host of --agent. */
function hostsAround(agentUrl: string | undefined): string {
  const asked = agentUrl === undefined ? [] : [hostOf(new URL(agentUrl))]
  return ['localhost', '127.0.0.0/8', '::1', ...asked].join(',')
}

function originOf(door: { port(): number }): string {
  return `http://localhost:${door.port()}`
}

function pageOf(origin: string, { name }: Answerer): string {
  return name === DEMO.name ? origin : `${origin}/?session=${name}`
}

/** Makes a key that seals secrets, in the format of the setting. */
function newKey(random: Random): string {
  return Buffer.from(random.bytes(32)).toString('base64')
}

function migrate({ url, hasGivenUrl }: Ground): Service {
  const stopping = new AbortController()
  const migrateNow = () => migrateUp({ databaseUrl: url(), signal: stopping.signal })
  return {
    name: 'migrations',
    start: async () =>
      void (await migrateNow().catch((error: unknown) => {
        if (!hasGivenUrl || !(error instanceof Retry) || error.fields['cannotConnect'] !== true) throw error
        throw new Retry(error.code, `${error.message}. ${OWN_POSTGRES}`, { cause: error })
      })),
    stop: async () => stopping.abort(),
  }
}

type WantedPorts = { readonly port: number; readonly operatorPort: number }

/** All ports that the fleet listens on. 0 means any free port and stays 0. */
function portsOf(
  { port, operatorPort }: WantedPorts,
  count: number,
): Ports & { page: number; model: number; postgres: number; pods: Ports[] } {
  const at = (base: number, distance: number) => (base === 0 ? 0 : base + distance)
  const pods = Array.from({ length: count }, (_, index) => ({
    gateway: at(port, (index + 1) * NEXT_POD),
    admin: at(operatorPort, (index + 1) * NEXT_POD),
  }))
  const [page, model, postgres] = [at(port, PAGE), at(port, MODEL), at(port, POSTGRES)]
  const all = [
    port,
    operatorPort,
    page,
    model,
    postgres,
    ...pods.flatMap(({ gateway, admin }) => [gateway, admin]),
  ]
  const taken = all.filter((one) => one !== 0)
  if (new Set(taken).size === taken.length && Math.max(...all) <= LAST_PORT)
    return { gateway: port, admin: operatorPort, page, model, postgres, pods }
  throw new Rejected(
    'invalid',
    `Pods listen ${NEXT_POD}, ${2 * NEXT_POD}, … above --port and --operator-port, the page ${PAGE}, a model ${MODEL} and PostgreSQL ${POSTGRES} above --port: choose two ports for which all of these differ and are at most ${LAST_PORT}`,
  )
}
