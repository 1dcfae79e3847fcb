// Builds a pod. The parts that others need come first, those that people reach come last. A stop goes in reverse:
//   at once                     the pod takes no new work (admin/draining.ts); its ports stay open
//   after `unreadyMs`           its clients move to other pods
//   after `drainMs` at most     running tasks have ended or are handed back
//   after `stopMs` more         everything is closed, even if PostgreSQL does not answer; parts that are late are reported
import { hostname } from 'node:os'
import { agentsOf, type AgentDefinition } from './agent/agent.ts'
import { createAgents } from './agent/agents.ts'
import { demoAgent } from './agent/demo.ts'
import { adminRoutes } from './admin/routes.ts'
import { createDrains } from './admin/drains.ts'
import { createDraining, longestDrainMs } from './admin/draining.ts'
import { createReadiness } from './admin/readiness.ts'
import { configOf, type Settings } from './config.ts'
import { createDoor } from './door/server.ts'
import { erasureDuties } from './erasure/duties.ts'
import { createErasures } from './erasure/erasures.ts'
import { createRetention } from './erasure/retention.ts'
import { createFleet } from './fleet/fleet.ts'
import { createRouteCaller } from './gateway/in-process.ts'
import { createPodAgents, type PodAgents } from './gateway/pod-agents.ts'
import { createPodErasures, type PodErasures, type PodRetention } from './gateway/pod-erasures.ts'
import { createPodSessions, type PodSessions } from './gateway/pod-sessions.ts'
import { createPodTasks, type PodTasks } from './gateway/pod-tasks.ts'
import { createPodTokens, type PodTokens } from './gateway/pod-tokens.ts'
import type { UsageResult, UsageQuery } from './gateway/usage-routes.ts'
import { gatewayRoutes } from './gateway/routes.ts'
import { POD } from './identity/actor.ts'
import { createAudit } from './identity/audit.ts'
import { createCallers, KEYS_TOPIC } from './identity/callers.ts'
import { createCuts } from './identity/cuts.ts'
import { identityDuties } from './identity/duties.ts'
import { createIssuers } from './identity/issuers.ts'
import { createKeys } from './identity/keys.ts'
import { operatorFor, type OperatorMethods } from './identity/operator.ts'
import { createOutsideTokens } from './identity/outside-tokens.ts'
import { anyoneOf } from './identity/principal.ts'
import { createRateLimits } from './identity/rate-limits.ts'
import { createRefusals, type Refusals } from './identity/refused-requests.ts'
import { createTenants, DEV_TENANT } from './identity/tenants.ts'
import { createTickets } from './identity/tickets.ts'
import { createTokens } from './identity/tokens.ts'
import { createInbox, type Inbox } from './inbox/inbox.ts'
import { systemClock, within } from './lib/clock.ts'
import { limitStop, compose, type Service } from './lib/lifecycle.ts'
import { originsOf } from './lib/origins.ts'
import { pick } from './lib/pick.ts'
import { systemRandom } from './lib/random.ts'
import { ownVersion } from './lib/version.ts'
import { createStartCheck } from './safety/start-check.ts'
import { machineDuties } from './machine/duties.ts'
import { readPopulation } from './machine/population.ts'
import { sessionDuties } from './session/duties.ts'
import { createSessions, type Sessions } from './session/sessions.ts'
import { createDatabase, type Database } from './store/database.ts'
import { createHints } from './store/hints.ts'
import { refuseOtherSchema } from './store/migrate.ts'
import { taskDuties } from './task/duties.ts'
import type { Machine } from './task/machine.ts'
import { createTasks, TASKS_TOPIC, type Tasks } from './task/tasks.ts'
import { createTracks, type Tracks } from './task/tracks.ts'
import type { DownstreamDefinition, DownstreamOptions } from './throttle/definition.ts'
import { createDownstreams, type Downstream } from './throttle/pod/downstreams.ts'
import { throttleDuties } from './throttle/fleet/duties.ts'
import { createRounds, type Rounds } from './throttle/fleet/rounds.ts'
import { readStandings } from './throttle/fleet/standings.ts'
import { createLog, type Log } from './telemetry/log.ts'
import { createMetrics } from './telemetry/metrics.ts'
import { createCompactMachines } from './turn/compact.ts'
import { createHalts } from './turn/halts.ts'
import { createTurnMachines } from './turn/turn.ts'
import { usageDuties } from './usage/duties.ts'
import { createUsageList } from './usage/list.ts'
import { createUsageRecorder } from './usage/record.ts'

export type Pod = Service &
  PodTasks &
  PodAgents & {
    /** The downstream with this key, such as `bedrock/claude`. Give options once per key, before it is in use. */
    downstream(key: string, options?: DownstreamOptions): Downstream
    readonly tenants: OperatorMethods['tenants']
    readonly keys: OperatorMethods['keys']
    /** Issuers of others, whose tokens are accepted. */
    readonly issuers: OperatorMethods['issuers']
    /** Who did what, and which requests were refused. */
    readonly audit: OperatorMethods['audit']
    /** How many tokens agents have used, by day, agent, model or session. */
    usage(question?: UsageQuery): Promise<UsageResult>
    /** Erases messages, sessions and users. */
    readonly erasures: PodErasures
    /** How long sessions are kept. */
    readonly retention: PodRetention
    /** Conversations, without HTTP in between. */
    readonly sessions: PodSessions
    /** Tokens for users of the sessions. */
    readonly tokens: PodTokens
    /** The ports that it listens on, also if the setting is 0. */
    ports(): { readonly gateway: number; readonly admin: number }
  }

const NO_ORIGINS = originsOf('')!
const PROBE_MS = 5_000
const PARTS = 4 // a part gets about a quarter of the time to stop
const LEAST_MS = 100
const LATE = new Error('Draining takes too long')

type Options = {
  readonly log?: Log
  /** The machines that it runs. A pod without any only enqueues. */
  readonly tasks?: readonly Machine[]
  /** Agents in code. They answer in sessions, like the agents behind URLs. Without this list, and without the demo agent, a
   *  pod leaves all turns to other pods. */
  readonly agents?: readonly AgentDefinition[]
  /** Downstreams with options. All others are known by their key. */
  readonly downstreams?: readonly DownstreamDefinition[]
}

/** Settings that you leave out come from the environment, then from the defaults. */
export function createPod(settings: Settings = {}, options: Options = {}): Pod {
  const config = configOf(settings)
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
    ...sessionDuties({
      ...pick(config, 'cell'),
      database,
      onReady,
      expireTurn: (turn) => sessions.expireTurn(turn),
      endCompaction: (end) => sessions.endCompaction(end),
    }),
    ...throttleDuties({ database, log }),
    ...usageDuties({ database }),
    ...erasureDuties({
      database,
      clock,
      metrics,
      onMembershipChanged: (tenant, user, session) => inbox.membersMoved(tenant, user, session),
      sessions: {
        stopTurn: (stop) => sessions.stopTurn(stop),
        notifyChanged: (key) => sessions.notifyChanged(key),
      },
    }),
    ...identityDuties({ ...pick(config, 'auditDays'), database }),
  ]
  const claimed = () => [...tracks.runners.keys()]
  const fleet = createFleet({
    ...pick(config, 'databaseUrl', 'beatMs', 'ttlMs'),
    drainMs: longestDrainMs(config),
    stopMs: partMs,
    database,
    clock,
    metrics,
    log,
    name,
    version,
    duties,
    tracks: claimed,
    clients: () => gateway.clients(),
    onDrainAsked: (isAsked) => (isAsked ? draining.begin() : draining.undo()),
  }) // which pods live, which one leads
  const onNews = () => rounds.wake()
  const known = options.downstreams ?? []
  const downstreams = createDownstreams({
    ...pick(config, 'throttle', 'turnSlots'),
    defined: known,
    clock,
    random,
    metrics,
    onNews,
  }) // limits for calls to providers
  const audit = createAudit({ database, metrics }) //                                 who did what
  const refusals = createRefusals({ audit, clock, log }) //                           and which requests were refused
  const tenants = createTenants({ database, audit }) //                               numbers of tenants
  const sendKeysHint = () => hints.send(KEYS_TOPIC)
  const keys = createKeys({ database, random, audit, onRevoked: sendKeysHint }) //          API keys
  const safety = createStartCheck({ config, database, keys, log }) //                      keeps an unsafe pod from starting
  const tokens = createTokens({ ...pick(config, 'tokenKeys', 'cell'), database, audit, clock, random }) // tokens of users
  const tickets = createTickets({ database, random }) //                               which stand in for tokens at sockets
  const cuts = createCuts({ database, audit }) //                                     tokens that were revoked
  const issuers = createIssuers({ database, clock, audit, onChange: sendKeysHint }) //      issuers of others
  const outside = createOutsideTokens({ issuers, clock }) //                                  and their tokens
  const isInsecure = config.allowInsecure.includes('authentication')
  const identity = { keys, tokens, tickets, outside, issuers, cuts, tenants }
  const { loginRate } = config
  const callers = createCallers({ ...identity, hints, clock, metrics, isInsecure, loginRate }) // who calls
  const rates = pick(config, 'sessionRate', 'userRate', 'keyRate', 'tenantRate')
  const rateLimits = createRateLimits({ ...rates, clock, metrics }) //                           how often
  const defined = agentsOf(options.agents ?? [], config.demoAgent ? [demoAgent({ clock })] : [])
  const { permits, isOpen } = downstreams
  const agents = createAgents({
    ...pick(config, 'secretsKey', 'agentHosts'),
    defined,
    isOpen,
    database,
    audit,
    clock,
    random,
    version,
  }) // agents in code and behind URLs
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
    onRead: (cursors) => inbox.cursorsMoved(cursors),
    onMoved: (moved) => inbox.moved(moved),
    onMembershipChanged: (tenant, user, session) => inbox.membersMoved(tenant, user, session),
  }) // sessions and their followers
  const inbox: Inbox = createInbox({
    ...pick(config, 'cell'),
    ...pick(sessions, 'reserve', 'budget'),
    database,
    hints,
    clock,
    metrics,
  }) // what a user sees of all its sessions
  const erasures = createErasures({
    ...pick(config, 'cell', 'auditDays'),
    deadlineMs: config.transactionDeadlineMs,
    database,
    audit,
    cuts,
    sessions,
    clock,
    random,
    metrics,
    onMembershipChanged: inbox.membersMoved,
  }) // how messages, sessions and users are erased
  const retention = createRetention({ database, audit }) //                                and sessions after their time
  const self = () => fleet.self()?.id
  const rounds: Rounds = createRounds({ database, clock, log, reporters: downstreams.inUse, self }) // this pod's shares
  const halts = createHalts({
    ...pick(config, 'cell'),
    database,
    clock,
    random,
    metrics,
    log,
    self,
    everyMs: config.hintPollMs,
  }) // ends of stopped turns
  const limitsOfAgents = pick(config, 'cell', 'agentFirstMs', 'agentSilenceMs')
  const usage = createUsageRecorder({ database }) //                                        what attempts have used
  const answering = { ...limitsOfAgents, database, sessions, agents, halts, usage, clock, random, metrics }
  const ofAgents = () => [
    ...createTurnMachines(answering, defined.keys()),
    ...createCompactMachines(answering, namesOfCompacting(defined)),
  ]
  const turns = options.agents || config.demoAgent ? ofAgents() : [] // turns of agents, and compactions
  const tracks: Tracks = createTracks({ database, machines: options.tasks ?? [], turns }) // what this pod can run
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
  }) // enqueues, claims and runs tasks
  const readiness = createReadiness({ clock, database, hints, fleet }) //                    what /readyz says
  const isDraining = () => readiness.isDraining()
  const limits = {
    ...pick(config, 'bodyLimitBytes', 'headerTimeoutMs', 'requestTimeoutMs', 'requestsPerSocket'),
    ...pick(config, 'stallMs', 'maxSockets'),
    stopMs: partMs,
  }
  const onRefused: Refusals['add'] = (refused) => refusals.add(refused)
  const door = {
    ...pick(config, 'host', 'trustedProxies'),
    limits,
    clock,
    random,
    log,
    metrics,
    rateLimits,
    isDraining,
    onRefused,
  }
  const admin = createDoor({
    ...door,
    name: 'admin',
    port: config.operatorPort,
    audiences: ['probe', 'admin'],
    callers: callers.admin,
    corsOrigins: NO_ORIGINS,
    routes: adminRoutes({
      readiness,
      metrics,
      fleet,
      drains: createDrains({ database, audit }),
      machines: () => readPopulation(database),
      downstreams: () => readStandings(database),
      tenants,
      keys,
      issuers,
      audit,
      version,
    }),
  })
  const forApplications = gatewayRoutes({
    version,
    sessions,
    inbox,
    agents,
    tasks,
    usage: createUsageList({ database }),
    erasures,
    retention,
    tokens,
    tickets,
    cuts,
    tenants,
    rateLimits,
    clock,
    random,
    log,
    ...pick(config, 'cell', 'chatBodyLimitBytes'),
  })
  const gateway = createDoor({
    ...door,
    name: 'gateway',
    port: config.port,
    audiences: ['probe', 'key', 'client'],
    callers: callers.gateway,
    ...pick(config, 'corsOrigins'),
    ...forApplications,
  })

  const parts = [
    database,
    schema,
    safety,
    tracks,
    hints,
    fleet,
    rounds,
    sessions,
    inbox,
    halts,
    tasks,
    readiness,
    callers,
    refusals,
    admin,
    gateway,
  ]
  const ending = { atMs: Infinity }
  const leftMs = () => Math.max(LEAST_MS, Math.min(partMs + partMs / 2, ending.atMs - clock.monotonicMs()))
  const pod = compose(
    'pod',
    parts.map((part) => limitStop(part, { clock, stopMs: part === database ? () => partMs : leftMs })),
  )
  const stopped = new AbortController()
  const draining = createDraining({
    ...pick(config, 'unreadyMs', 'drainMs'),
    readiness,
    fleet,
    tasks,
    door: gateway,
    isServing: () => isServing,
    clock,
    log,
  }) // how it is taken out of work
  let [isServing, stopping] = [false, undefined as Promise<void> | undefined]
  const stop = async () => {
    const { sockets, streams } = gateway.clients()
    const servingMs =
      sockets + streams > 0 ? longestDrainMs(config) : Math.max(config.unreadyMs, config.drainMs)
    const drainMs = isServing ? servingMs : config.drainMs
    ending.atMs = clock.monotonicMs() + drainMs + config.stopMs - partMs // the rest is left for the database
    fleet.end()
    await within(clock, ending.atMs - clock.monotonicMs(), draining.end(), LATE).catch(() => undefined) // pod.stop() reports what is late
    stopped.abort()
    await pod.stop()
  }
  const ownTenant = () => tenants.numberOf(DEV_TENANT)
  const call = createRouteCaller({
    routes: forApplications.routes,
    principal: async () => anyoneOf(await ownTenant()),
  })
  return {
    ...pod,
    ...operatorFor(POD, { tenants, keys, issuers, audit }),
    ...createPodTasks({ tasks, ownTenant }),
    ...createPodAgents({ agents, call, ownTenant }),
    downstream: (key, options) => downstreams.get(key, options),
    usage: (question = {}) => call('GET /v1/usage', { query: question }),
    ...createPodErasures(call),
    sessions: createPodSessions({ call, stopping: stopped.signal }),
    tokens: createPodTokens(call),
    start: async () => {
      await pod.start()
      isServing = true
    },
    stop: () => (stopping ??= stop()),
    ports: () => ({ gateway: gateway.port(), admin: admin.port() }),
  }
}

/** The others need no track for compactions: they are never asked for a summary. */
function namesOfCompacting(agents: ReadonlyMap<string, AgentDefinition>): string[] {
  return [...agents.values()].filter(({ compact }) => compact !== undefined).map(({ name }) => name)
}

/** Keeps a pod from starting on a schema that it cannot run on. */
function schemaGuard(database: Database): Service {
  return {
    name: 'schema',
    start: () => refuseOtherSchema(database),
    stop: async () => undefined,
  }
}
