// Every metric, once: its name, kind, help and labels. docs/reference/metrics.md is made of this table.
// A pod has a registry of its own. Label values are routes, outcomes and states from our own tables, the machines
// that pods run, and the downstreams that code names, never an id, a tenant or a text from outside: the number of series is bounded by the sources (S22).
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'

type Metric = {
  readonly kind: 'counter' | 'gauge' | 'seconds'
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
}

export const METRICS = {
  httpRequests: {
    kind: 'counter',
    name: 'fleetline_http_requests_total',
    help: 'Requests answered, by door, route and status; what matches no route counts as route none.',
    labels: ['door', 'route', 'status'],
  },
  httpTime: {
    kind: 'seconds',
    name: 'fleetline_http_request_seconds',
    help: 'From the first byte of a request to the end of its answer.',
    labels: ['door', 'route'],
  },
  transactions: {
    kind: 'counter',
    name: 'fleetline_transactions_total',
    help: 'Transactions ended: committed, not-committed or unknown.',
    labels: ['outcome'],
  },
  transactionTime: {
    kind: 'seconds',
    name: 'fleetline_transaction_seconds',
    help: 'From the wish for a connection to the outcome.',
    labels: ['outcome'],
  },
  poolConnections: {
    kind: 'gauge',
    name: 'fleetline_pool_connections',
    help: 'Connections to PostgreSQL, open and idle, and callers that wait for one.',
    labels: ['state'],
  },
  hintConnections: {
    kind: 'counter',
    name: 'fleetline_hint_connections_total',
    help: 'Times that the listening connection was opened; more than one is a reconnect.',
    labels: [],
  },
  hintsSent: {
    kind: 'counter',
    name: 'fleetline_hints_sent_total',
    help: 'Hints sent to other pods, or lost on the way out: the poll behind them delivers.',
    labels: ['outcome'],
  },
  hintsReceived: {
    kind: 'counter',
    name: 'fleetline_hints_received_total',
    help: 'Hints heard from PostgreSQL, also those that nobody here waits for.',
    labels: [],
  },
  beatAge: {
    kind: 'gauge',
    name: 'fleetline_beat_age_seconds',
    help: 'Since this pod sent the last beat that came through; near the ttl it starts nothing.',
    labels: [],
  },
  dutyTime: {
    kind: 'seconds',
    name: 'fleetline_duty_seconds',
    help: 'Runs of a duty of the leader, by duty and outcome (done, failed); what is left after two seconds is for the next run.',
    labels: ['duty', 'outcome'],
  },
  detection: {
    kind: 'seconds',
    name: 'fleetline_detection_seconds',
    help: 'From the last beat of a pod to when this pod, as leader, counted it as dead.',
    labels: [],
  },
  leaderless: {
    kind: 'seconds',
    name: 'fleetline_leaderless_seconds',
    help: 'How long there was no leader before this pod took the term.',
    labels: [],
  },
  pods: {
    kind: 'gauge',
    name: 'fleetline_pods',
    help: 'Pods as this one last saw them.',
    labels: ['state'],
  },
  leads: {
    kind: 'gauge',
    name: 'fleetline_leader',
    help: '1 on the pod that leads, else 0.',
    labels: [],
  },
  term: {
    kind: 'gauge',
    name: 'fleetline_term',
    help: 'The term as this pod last saw it; each leader has its own, and it only grows.',
    labels: [],
  },
  tasksEnqueued: {
    kind: 'counter',
    name: 'fleetline_tasks_enqueued_total',
    help: 'Tasks that this pod made, but for those in transactions of their callers.',
    labels: [],
  },
  tasksSettled: {
    kind: 'counter',
    name: 'fleetline_tasks_settled_total',
    help: 'Attempts that ended here: done, failed, retry, later, back, held, dead; fenced, which changed nothing; or unanswered.',
    labels: ['machine', 'outcome'],
  },
  tasksRecovered: {
    kind: 'counter',
    name: 'fleetline_tasks_recovered_total',
    help: 'Claims of dead pods that this pod, as leader, returned: now ready, waiting for a while, or dead.',
    labels: ['outcome'],
  },
  taskTime: {
    kind: 'seconds',
    name: 'fleetline_task_seconds',
    help: 'From the start of an attempt to its end, without its settlement; of a turn, with it.',
    labels: ['machine'],
  },
  taskWait: {
    kind: 'seconds',
    name: 'fleetline_task_wait_seconds',
    help: 'From when a task could run to when this pod claimed it, by the clock of the database.',
    labels: ['machine'],
  },
  claims: {
    kind: 'counter',
    name: 'fleetline_claims_total',
    help: 'Claims that brought some tasks, were empty, were contended (empty again and again though woken: others were faster), or failed.',
    labels: ['outcome'],
  },
  claimTime: {
    kind: 'seconds',
    name: 'fleetline_claim_seconds',
    help: 'How long a claim took.',
    labels: [],
  },
  tasksRunning: {
    kind: 'gauge',
    name: 'fleetline_tasks_running',
    help: 'Attempts that this pod runs now, or settles: of tasks, and of turns.',
    labels: ['kind'],
  },
  taskSlots: {
    kind: 'gauge',
    name: 'fleetline_task_slots',
    help: 'How many attempts this pod runs at most: of tasks, and of turns.',
    labels: ['kind'],
  },
  queueOldest: {
    kind: 'gauge',
    name: 'fleetline_queue_oldest_seconds',
    help: 'Since when the first task in line could have run, 0 if none could; told by the leader.',
    labels: ['queue', 'machine'],
  },
  tasksDead: {
    kind: 'gauge',
    name: 'fleetline_tasks_dead',
    help: 'Tasks that are dead, for a person to look at; told by the leader.',
    labels: ['queue', 'machine'],
  },
  tasksHeld: {
    kind: 'gauge',
    name: 'fleetline_tasks_held',
    help: 'Tasks that are held: by their own body (hold), or because no live pod knows their transitions (shape); told by the leader.',
    labels: ['queue', 'machine', 'reason'],
  },
  transitions: {
    kind: 'counter',
    name: 'fleetline_transitions_total',
    help: 'Transitions that ran here: recorded, done (the last one), handoff, failed, retry, later, held, back, dead; fenced, which changed nothing; or unanswered.',
    labels: ['machine', 'transition', 'outcome'],
  },
  transitionTime: {
    kind: 'seconds',
    name: 'fleetline_transition_seconds',
    help: 'How long the body of a transition ran, without its record.',
    labels: ['machine', 'transition'],
  },
  permits: {
    kind: 'counter',
    name: 'fleetline_permits_total',
    help: 'Who asked for a permit, and got it at_once, waited for it, got none in time, or, where the throttle only observes, would_wait.',
    labels: ['downstream', 'outcome'],
  },
  permitWait: {
    kind: 'seconds',
    name: 'fleetline_permit_wait_seconds',
    help: 'How long permits were waited for in this pod; what waits in the queue for room is not among them.',
    labels: ['downstream'],
  },
  downstreamReplies: {
    kind: 'counter',
    name: 'fleetline_downstream_responses_total',
    help: 'Calls that ended: ok, refused, timeout, server (it is ill), or client, which says nothing about the downstream.',
    labels: ['downstream', 'class'],
  },
  downstreamCuts: {
    kind: 'counter',
    name: 'fleetline_downstream_cuts_total',
    help: 'Times that this pod cut its own limit: once an overload that showed as refused, timeout or server, or because of latency.',
    labels: ['downstream', 'reason'],
  },
  downstreamLimit: {
    kind: 'gauge',
    name: 'fleetline_downstream_limit',
    help: 'How many calls this pod may have in flight, as learnt so far.',
    labels: ['downstream'],
  },
  downstreamShare: {
    kind: 'gauge',
    name: 'fleetline_downstream_share',
    help: 'What the fleet lets this pod have of it; its safe share once the lease is over.',
    labels: ['downstream'],
  },
  downstreamInFlight: {
    kind: 'gauge',
    name: 'fleetline_downstream_in_flight',
    help: 'Permits that are held in this pod.',
    labels: ['downstream'],
  },
  downstreamWaiting: {
    kind: 'gauge',
    name: 'fleetline_downstream_waiting',
    help: 'Who waits for a permit in this pod.',
    labels: ['downstream'],
  },
  appends: {
    kind: 'counter',
    name: 'fleetline_appends_total',
    help: 'Messages answered: stored, repeated, not-found, conflict, stale; or failed, which says nothing about the log.',
    labels: ['outcome'],
  },
  appendTime: {
    kind: 'seconds',
    name: 'fleetline_append_seconds',
    help: 'From a message at the write path to its answer: the wait for a batch and the commit.',
    labels: ['outcome'],
  },
  agentCalls: {
    kind: 'counter',
    name: 'fleetline_agent_calls_total',
    help: 'Calls of agents ended: answered, aborted (stopped, fenced, or the pod drains), later (asked for by the agent), thrown (by an agent in code), or the code of the fault.',
    labels: ['outcome'],
  },
  agentChunksIgnored: {
    kind: 'counter',
    name: 'fleetline_agent_chunks_ignored_total',
    help: 'Chunks that agents sent behind their finish, error or abort, which nobody is shown.',
    labels: [],
  },
  turnsEnded: {
    kind: 'counter',
    name: 'fleetline_turns_ended_total',
    help: 'Ends of turns answered: done, failed, stopped; or fenced, which changed nothing, since another attempt or turn is current.',
    labels: ['outcome'],
  },
  haltTime: {
    kind: 'seconds',
    name: 'fleetline_halt_seconds',
    help: 'From when a running turn was stopped to when the call of its agent had ended, or its pod was dead.',
    labels: [],
  },
  followers: {
    kind: 'gauge',
    name: 'fleetline_followers',
    help: 'Who follows a session through this pod now.',
    labels: [],
  },
  followBytes: {
    kind: 'gauge',
    name: 'fleetline_follow_bytes',
    help: 'What followers of this pod have been sent, or are about to be, and have not taken; at most the setting followBytes.',
    labels: [],
  },
  followersCut: {
    kind: 'counter',
    name: 'fleetline_followers_cut_total',
    help: 'Followers that were closed because they took their event too slowly while others waited for room.',
    labels: [],
  },
  openBytes: {
    kind: 'gauge',
    name: 'fleetline_open_bytes',
    help: 'Of replies that are under way: what is kept for who joins (kept), and what is not yet written for other pods (unwritten).',
    labels: ['kind'],
  },
  streams: {
    kind: 'gauge',
    name: 'fleetline_streams',
    help: 'Attempts of turns that run here and are written for others (written); turns elsewhere that are followed here (read).',
    labels: ['kind'],
  },
  chunkTime: {
    kind: 'seconds',
    name: 'fleetline_chunk_seconds',
    help: 'How long a flush of chunks took, or a read: one statement a tick for all streams.',
    labels: ['statement', 'outcome'],
  },
  lookupLag: {
    kind: 'gauge',
    name: 'fleetline_lookup_lag_seconds',
    help: 'How long the oldest wish to look up a head has waited; grows while PostgreSQL cannot be read.',
    labels: [],
  },
} as const satisfies Record<string, Metric>

type Table = typeof METRICS
type Named<Kind> = { [Key in keyof Table]: Table[Key]['kind'] extends Kind ? Key : never }[keyof Table]
type Labels<Key extends keyof Table> = Readonly<Record<Table[Key]['labels'][number], string>>

export type Metrics = {
  count<Key extends Named<'counter'>>(key: Key, labels: Labels<Key>, by?: number): void
  observe<Key extends Named<'seconds'>>(key: Key, labels: Labels<Key>, ms: number): void
  /** The gauge is read at each scrape. */
  gauge<Key extends Named<'gauge'>>(key: Key, read: () => readonly (readonly [Labels<Key>, number])[]): void
  /** In Prometheus' text format. */
  text(): Promise<string>
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry }) // process_* and nodejs_*, as dashboards expect them
  const registers = [registry]
  const of = <Made>(kind: Metric['kind'], make: (options: Metric & { registers: Registry[] }) => Made) =>
    new Map(
      Object.entries<Metric>(METRICS)
        .filter(([, metric]) => metric.kind === kind)
        .map(([key, metric]) => [key, make({ ...metric, registers })] as const),
    )
  const counters = of('counter', (options) => new Counter({ ...options, labelNames: options.labels }))
  const histograms = of(
    'seconds',
    (options) => new Histogram({ ...options, labelNames: options.labels, buckets: SECONDS }),
  )
  const gauges = of('gauge', (options) => new Gauge({ ...options, labelNames: options.labels }))
  const readings: (() => void)[] = []
  return {
    count: (key, labels, by = 1) => counters.get(key)!.inc(labels, by),
    observe: (key, labels, ms) => histograms.get(key)!.observe(labels, ms / 1000),
    gauge: (key, read) =>
      void readings.push(() => {
        gauges.get(key)!.reset() // a series of the last scrape may be no more
        read().forEach(([labels, value]) => gauges.get(key)!.set(labels, value))
      }),
    text: () => {
      readings.forEach((read) => read())
      return registry.metrics()
    },
  }
}
