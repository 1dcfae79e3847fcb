// A pod, read top to bottom: what it stands on first, what people reach last. It stops the other way round:
//   at once                     it is not ready, claims nothing, and gives up its term; its doors stay open
//   after `unreadyMs`           whoever sends people here has seen that
//   after `drainMs` at most     running tasks have ended, or are handed back
//   after `stopMs` more         all is closed, also if PostgreSQL does not answer: what is late by then is told
import { hostname } from 'node:os'
import type { Task } from '@fleetline/protocol'
import { agentsOf, type AgentDefinition } from './agent/agent.ts'
import { createAgents } from './agent/agents.ts'
import type { Added, AgentEntry, NewAgent } from './agent/directory.ts'
import { demoAgent } from './agent/demo.ts'
import { adminRoutes } from './admin/routes.ts'
import { createReadiness } from './admin/readiness.ts'
import type { Config } from './config.ts'
import { createDoor } from './door/server.ts'
import { Abort, Rejected } from './errors.ts'
import { createFleet } from './fleet/fleet.ts'
import { gatewayRoutes } from './gateway/routes.ts'
import { createTenants, ONLY_TENANT } from './identity/tenants.ts'
import { systemClock, within } from './lib/clock.ts'
import { limitStop, compose, type Service } from './lib/lifecycle.ts'
import { pick } from './lib/pick.ts'
import { systemRandom } from './lib/random.ts'
import { ownVersion } from './lib/version.ts'
import { machineDuties } from './machine/duties.ts'
import { readPopulation } from './machine/population.ts'
import { sessionDuties } from './session/duties.ts'
import { createSessions, type Sessions } from './session/sessions.ts'
import { createDatabase, valueOf, type Database, type Query } from './store/database.ts'
import { createHints } from './store/hints.ts'
import { codeNumber, outsideWindow, readSchema } from './store/migrate.ts'
import type { TaskFilter, TaskPage } from './task/list.ts'
import { taskDuties } from './task/duties.ts'
import type { Enqueued } from './task/enqueue.ts'
import type { Machine } from './task/machine.ts'
import { createTasks, TASKS_TOPIC, type Tasks, type Wanted } from './task/tasks.ts'
import { createTracks, type Tracks } from './task/tracks.ts'
import type { DownstreamDefinition, DownstreamOptions } from './throttle/definition.ts'
import { createDownstreams, type Downstream } from './throttle/pod/downstreams.ts'
import { throttleDuties } from './throttle/fleet/duties.ts'
import { createRounds, type Rounds } from './throttle/fleet/rounds.ts'
import { readStandings } from './throttle/fleet/standings.ts'
import { createLog, type Log } from './telemetry/log.ts'
import { createMetrics } from './telemetry/metrics.ts'
import { createHalts } from './turn/halts.ts'
import { createTurnMachines } from './turn/turn.ts'

/** The client on which a caller's transaction of `pg` is open. */
export type Transaction = {
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[] }>
}
/** Its result is null until it is done. */
export type TaskOf<Result> = Omit<Task, 'result'> & { readonly result: Result | null }
type Within = { readonly tx?: Transaction }

export type Pod = Service & {
  /** Answered when it is committed; with `tx` it is as much there as that transaction, which wakes nobody. */
  enqueue<Raw>(wanted: Wanted<Raw>, within?: Within): Promise<Enqueued>
  /** All of them, or none. */
  enqueueAll<Raws extends readonly unknown[]>(
    wanted: readonly [...{ [N in keyof Raws]: Wanted<Raws[N]> }],
    within?: Within,
  ): Promise<Enqueued[]>
  findTask(id: string): Promise<Task | undefined>
  /** With its result as its machine gives it; a task of another machine is refused. */
  findTask<Result>(id: string, machine: Machine<unknown, Result>): Promise<TaskOf<Result> | undefined>
  /** A page of them, the newest first. */
  listTasks(filter?: TaskFilter): Promise<TaskPage>
  /** A task that is dead or held becomes ready, with all its attempts, where it stands or `from` a transition before.
   *  Undefined if there is no such task; in any other state it is refused. */
  retryTask(id: string, options?: { readonly from?: string }): Promise<Task | undefined>
  /** Its secret is in this answer, and in no other. Added again as it is, it is there once. */
  addAgent(agent: NewAgent): Promise<Added>
  listAgents(): Promise<readonly AgentEntry[]>
  /** Whether it was there. */
  removeAgent(name: string): Promise<boolean>
  /** What has one limit of its own, by its key: `bedrock/claude`. Options are said once a key, before it is in use. */
  downstream(key: string, options?: DownstreamOptions): Downstream
  /** What it listens on, also when 0 was asked for. */
  ports(): { readonly gateway: number; readonly admin: number }
}

const PROBE_MS = 5_000
const PARTS = 4 // so much of the time to stop goes to one part at most
const LEAST_MS = 100
const LATE = new Error('Draining takes too long')

type Options = {
  readonly log?: Log
  /** What it runs; a pod without any only enqueues. */
  readonly tasks?: readonly Machine[]
  /** Who answers in sessions, beside the agents behind URLs. A pod that has no such list leaves all turns to others. */
  readonly agents?: readonly AgentDefinition[]
  /** Those that have options; any other is known by its key. */
  readonly downstreams?: readonly DownstreamDefinition[]
}

export function createPod(config: Config, options: Options = {}): Pod {
  const [clock, random, metrics, version] = [systemClock(), systemRandom(), createMetrics(), ownVersion()]
  const log = (options.log ?? createLog({ level: config.logLevel })).with({ version })

  const partMs = config.stopMs / PARTS
  const database = createDatabase({
    ...pick(config, 'databaseUrl', 'poolSize', 'transactionDeadlineMs', 'lockTimeoutMs', 'idleTransactionMs'),
    stopMs: partMs / 2,
    clock,
    metrics,
  }) // connections, transactions
  const schema = schemaGuard(database) //                                             the schema this release was written for
  const hints = createHints({
    ...pick(config, 'databaseUrl'),
    pollMs: config.hintPollMs,
    probeMs: PROBE_MS,
    clock,
    random,
    metrics,
    log,
  }) // wake-ups
  const name = config.podName || hostname()
  const onReady = () => hints.send(TASKS_TOPIC)
  const duties = [
    ...taskDuties({ ...pick(config, 'cell', 'beatMs'), database, clock, metrics, log, onReady }),
    ...machineDuties({ ...pick(config, 'beatMs'), database, clock, log, onReady }),
    ...sessionDuties({ database, onReady, expireTurn: (turn) => sessions.expireTurn(turn) }),
    ...throttleDuties({ database, log }),
  ]
  const claimed = () => [...tracks.runners.keys()]
  const fleet = createFleet({
    ...pick(config, 'databaseUrl', 'beatMs', 'ttlMs'),
    stopMs: partMs,
    database,
    clock,
    metrics,
    log,
    name,
    version,
    duties,
    tracks: claimed,
  }) // who lives, who leads
  const onNews = () => rounds.wake()
  const known = options.downstreams ?? []
  const downstreams = createDownstreams({
    ...pick(config, 'throttle', 'turnSlots'),
    defined: known,
    clock,
    random,
    metrics,
    onNews,
  }) // how hard we may push
  const tenants = createTenants({ database }) //                                      whose rows
  const defined = agentsOf(options.agents ?? [], config.demoAgent ? [demoAgent({ clock })] : [])
  const { permits, isOpen } = downstreams
  const agents = createAgents({
    ...pick(config, 'secretsKey', 'agentHosts'),
    defined,
    isOpen,
    database,
    clock,
    random,
    version,
  }) // in code, and behind URLs
  const onTurns = () => tasks.wake()
  const sessions: Sessions = createSessions({
    ...pick(config, 'cell', 'transactionDeadlineMs'),
    ...pick(config, 'maxFollowers', 'stallMs', 'followBytes', 'openTurnBytes', 'openBytes'),
    database,
    hints,
    metrics,
    log,
    clock,
    random,
    onTurns,
  }) // the log, its readers
  const self = () => fleet.self()?.id
  const rounds: Rounds = createRounds({ database, clock, log, reporters: downstreams.inUse, self }) // our shares of that
  const halts = createHalts({ database, clock, random, metrics, log, self, everyMs: config.hintPollMs }) // whose agents have ended
  const limitsOfAgents = pick(config, 'cell', 'agentFirstMs', 'agentSilenceMs')
  const answering = { ...limitsOfAgents, database, sessions, agents, halts, clock, random, metrics }
  const turns = options.agents || config.demoAgent ? createTurnMachines(answering, defined.keys()) : [] // who answers
  const tracks: Tracks = createTracks({ database, machines: options.tasks ?? [], turns }) // what it can run
  const tasks: Tasks = createTasks({
    ...pick(config, 'cell', 'transactionDeadlineMs', 'slots', 'turnSlots', 'taskPollMs', 'drainMs'),
    stopMs: partMs,
    database,
    hints,
    fleet,
    tracks,
    permits,
    metrics,
    clock,
    random,
    log,
  }) // the work
  const readiness = createReadiness({ clock, database, hints, fleet }) //                    what /readyz says
  const isDraining = () => readiness.isDraining()
  const limits = {
    ...pick(config, 'bodyLimitBytes', 'headerTimeoutMs', 'requestTimeoutMs', 'requestsPerSocket', 'stallMs'),
    stopMs: partMs,
  }
  const door = { host: config.host, limits, clock, random, log, metrics, isDraining }
  const admin = createDoor({
    ...door,
    name: 'admin',
    port: config.operatorPort,
    audiences: ['probe', 'admin'],
    routes: adminRoutes({
      readiness,
      metrics,
      fleet,
      machines: () => readPopulation(database),
      downstreams: () => readStandings(database),
      version,
    }),
  })
  const gateway = createDoor({
    ...door,
    name: 'gateway',
    port: config.port,
    audiences: ['key'],
    routes: gatewayRoutes({ version, sessions, agents, tasks, tenants, clock, random, cell: config.cell }),
  })

  const parts = [
    database,
    schema,
    tracks,
    hints,
    fleet,
    rounds,
    sessions,
    halts,
    tasks,
    readiness,
    admin,
    gateway,
  ]
  const ending = { atMs: Infinity }
  const leftMs = () => Math.max(LEAST_MS, Math.min(partMs + partMs / 2, ending.atMs - clock.monotonicMs()))
  const pod = compose(
    'pod',
    parts.map((part) => limitStop(part, { clock, stopMs: part === database ? () => partMs : leftMs })),
  )
  let [isServing, stopping] = [false, undefined as Promise<void> | undefined]
  const stop = async () => {
    const drainMs = isServing ? Math.max(config.unreadyMs, config.drainMs) : config.drainMs
    ending.atMs = clock.monotonicMs() + drainMs + config.stopMs - partMs // the rest is the database's
    readiness.drain()
    const drained = Promise.allSettled([
      fleet.drain(),
      tasks.drain(),
      isServing && clock.sleep(config.unreadyMs),
    ])
    await within(clock, ending.atMs - clock.monotonicMs(), drained, LATE).catch(() => undefined) // the parts tell
    await pod.stop()
  }
  const ownTenant = () => tenants.numberOf(ONLY_TENANT)
  const enqueueAll = async (wanted: readonly Wanted[], { tx }: Within = {}) => {
    const tenant = await ownTenant()
    return tx ? tasks.enqueueIn(queryOf(tx), tenant, wanted) : tasks.enqueueAll(tenant, wanted)
  }
  return {
    ...pod,
    enqueue: async (wanted, { tx } = {}) => {
      if (tx) return (await enqueueAll([wanted], { tx }))[0]!
      return tasks.enqueue(await ownTenant(), wanted)
    },
    enqueueAll,
    findTask: async <Result>(id: string, machine?: Machine<unknown, Result>) => {
      const task = await tasks.find(await ownTenant(), id)
      if (task && machine && task.machine !== machine.name)
        throw new Rejected('conflict', `The task is of ${task.machine}, not of ${machine.name}`)
      return task as TaskOf<Result> | undefined // what its schema has let through
    },
    listTasks: async (filter) => tasks.list(await ownTenant(), filter),
    addAgent: async (agent) => agents.add(await ownTenant(), agent),
    listAgents: async () => agents.list(await ownTenant()),
    removeAgent: async (name) => agents.remove(await ownTenant(), name),
    retryTask: async (id, { from } = {}) => tasks.retry(await ownTenant(), id, from),
    downstream: (key, options) => downstreams.get(key, options),
    start: async () => {
      await pod.start()
      isServing = true
    },
    stop: () => (stopping ??= stop()),
    ports: () => ({ gateway: gateway.port(), admin: admin.port() }),
  }
}

/** A pod does not start on a schema that it was not written for. */
function schemaGuard(database: Database): Service {
  return {
    name: 'schema',
    start: async () => {
      const outcome = await database.transaction(readSchema, { access: 'read' })
      const reason = outsideWindow(valueOf(outcome, 'The schema cannot be read'), codeNumber())
      if (reason !== undefined) throw new Abort('stale', reason)
    },
    stop: async () => undefined,
  }
}

function queryOf(tx: Transaction): Query {
  return async <Row>(text: string, values: readonly unknown[] = []) =>
    (await tx.query(text, [...values])).rows as Row[]
}
