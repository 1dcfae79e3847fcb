// Declares every metric once: name, kind, help and labels. docs/reference/metrics.md is generated from this table. Each pod
// has its own registry. Label values are routes, outcomes and states from our own tables, the machines that pods run, and the
// downstreams that code names. They are never an id, a tenant or a text from outside, so our code limits the number of
// series (S22).
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
    help: 'Requests answered, by port (door), route and status. Requests that match no route have the route none.',
    labels: ['door', 'route', 'status'],
  },
  httpTime: {
    kind: 'seconds',
    name: 'fleetline_http_request_seconds',
    help: 'Time from the first byte of a request to the end of its response.',
    labels: ['door', 'route'],
  },
  sockets: {
    kind: 'gauge',
    name: 'fleetline_sockets',
    help: 'Open sockets on this pod. The limit is the setting maxSockets.',
    labels: [],
  },
  socketsClosed: {
    kind: 'counter',
    name: 'fleetline_sockets_closed_total',
    help: 'Sockets that have ended, by the code with which this pod closed them; client if the client left or was lost.',
    labels: ['code'],
  },
  socketCommands: {
    kind: 'counter',
    name: 'fleetline_socket_commands_total',
    help: 'Commands that clients sent over sockets, by outcome: done, or the code of the error.',
    labels: ['command', 'outcome'],
  },
  logins: {
    kind: 'counter',
    name: 'fleetline_logins_total',
    help: 'Requests with a key or a token, and requests that need one, by outcome: done, missing, malformed, unknown, expired, revoked, early, audience, algorithm, signature, limited.',
    labels: ['outcome'],
  },
  rateLimited: {
    kind: 'counter',
    name: 'fleetline_rate_limited_total',
    help: 'Requests rejected with 429, by limit: session, user, key, tenant, login.',
    labels: ['limit'],
  },
  auditRows: {
    kind: 'counter',
    name: 'fleetline_audit_rows_total',
    help: 'Rows that this pod has added to the audit log, by outcome: done or refused.',
    labels: ['outcome'],
  },
  transactions: {
    kind: 'counter',
    name: 'fleetline_transactions_total',
    help: 'Transactions by outcome: committed, not-committed or unknown.',
    labels: ['outcome'],
  },
  transactionTime: {
    kind: 'seconds',
    name: 'fleetline_transaction_seconds',
    help: 'Time from asking for a connection to the outcome of the transaction.',
    labels: ['outcome'],
  },
  poolConnections: {
    kind: 'gauge',
    name: 'fleetline_pool_connections',
    help: 'Connections to PostgreSQL: open, idle, and callers that wait for one.',
    labels: ['state'],
  },
  hintConnections: {
    kind: 'counter',
    name: 'fleetline_hint_connections_total',
    help: 'How often the listening connection was opened. More than one means reconnects.',
    labels: [],
  },
  hintsSent: {
    kind: 'counter',
    name: 'fleetline_hints_sent_total',
    help: 'Hints to other pods: sent, or lost. Polls make up for lost ones.',
    labels: ['outcome'],
  },
  hintsReceived: {
    kind: 'counter',
    name: 'fleetline_hints_received_total',
    help: 'Hints received from PostgreSQL, including those that nobody on this pod waits for.',
    labels: [],
  },
  beatAge: {
    kind: 'gauge',
    name: 'fleetline_beat_age_seconds',
    help: 'Time since this pod sent its last confirmed beat. Near ttlMs the pod starts no new work.',
    labels: [],
  },
  dutyTime: {
    kind: 'seconds',
    name: 'fleetline_duty_seconds',
    help: "Runs of the leader's duties, by duty and outcome (done, failed). A run stops after two seconds; the next one continues.",
    labels: ['duty', 'outcome'],
  },
  detection: {
    kind: 'seconds',
    name: 'fleetline_detection_seconds',
    help: 'Time from the last beat of a pod until this pod, as leader, counted it as dead.',
    labels: [],
  },
  leaderless: {
    kind: 'seconds',
    name: 'fleetline_leaderless_seconds',
    help: 'How long the fleet had no leader before this pod took over.',
    labels: [],
  },
  pods: {
    kind: 'gauge',
    name: 'fleetline_pods',
    help: 'Pods by state, as this pod last saw them.',
    labels: ['state'],
  },
  leads: {
    kind: 'gauge',
    name: 'fleetline_leader',
    help: '1 on the leader, otherwise 0.',
    labels: [],
  },
  term: {
    kind: 'gauge',
    name: 'fleetline_term',
    help: 'The term as this pod last saw it. It grows with each new leader.',
    labels: [],
  },
  tasksEnqueued: {
    kind: 'counter',
    name: 'fleetline_tasks_enqueued_total',
    help: "Tasks enqueued through this pod, without those in callers' own transactions.",
    labels: [],
  },
  tasksSettled: {
    kind: 'counter',
    name: 'fleetline_tasks_settled_total',
    help: 'Attempts that ended on this pod: done, failed, retry, later, back, held, dead; fenced (changed nothing) or unanswered.',
    labels: ['machine', 'outcome'],
  },
  tasksRecovered: {
    kind: 'counter',
    name: 'fleetline_tasks_recovered_total',
    help: 'Claims of dead pods that this pod, as leader, returned: now ready, waiting or dead.',
    labels: ['outcome'],
  },
  taskTime: {
    kind: 'seconds',
    name: 'fleetline_task_seconds',
    help: 'Time from the start of an attempt to its end. Writing the end counts for turns, not for tasks.',
    labels: ['machine'],
  },
  taskWait: {
    kind: 'seconds',
    name: 'fleetline_task_wait_seconds',
    help: 'Time from when a task could run until this pod claimed it, by the clock of the database.',
    labels: ['machine'],
  },
  claims: {
    kind: 'counter',
    name: 'fleetline_claims_total',
    help: 'Claims by outcome: some tasks, empty, contended (woken again and again, but other pods were faster) or failed.',
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
    help: 'Attempts that this pod is running or ending now, of tasks and of turns.',
    labels: ['kind'],
  },
  taskSlots: {
    kind: 'gauge',
    name: 'fleetline_task_slots',
    help: 'How many attempts this pod may run at once, of tasks and of turns.',
    labels: ['kind'],
  },
  queueOldest: {
    kind: 'gauge',
    name: 'fleetline_queue_oldest_seconds',
    help: 'How long the first task in line could have run already; 0 if none could. Reported by the leader.',
    labels: ['queue', 'machine'],
  },
  tasksDead: {
    kind: 'gauge',
    name: 'fleetline_tasks_dead',
    help: 'Dead tasks. A person should look at them. Reported by the leader.',
    labels: ['queue', 'machine'],
  },
  tasksHeld: {
    kind: 'gauge',
    name: 'fleetline_tasks_held',
    help: 'Held tasks, by reason: their own code asked for it (hold), or no live pod knows their transitions (shape). Reported by the leader.',
    labels: ['queue', 'machine', 'reason'],
  },
  transitions: {
    kind: 'counter',
    name: 'fleetline_transitions_total',
    help: 'Transitions that ran on this pod: recorded, done (the last one), handoff, failed, retry, later, held, back, dead; fenced (changed nothing) or unanswered.',
    labels: ['machine', 'transition', 'outcome'],
  },
  transitionTime: {
    kind: 'seconds',
    name: 'fleetline_transition_seconds',
    help: 'How long the body of a transition ran, without recording it.',
    labels: ['machine', 'transition'],
  },
  permits: {
    kind: 'counter',
    name: 'fleetline_permits_total',
    help: 'Requests for a permit: granted at_once, granted after a wait (waited), none in time, or would_wait if the throttle only observes.',
    labels: ['downstream', 'outcome'],
  },
  permitWait: {
    kind: 'seconds',
    name: 'fleetline_permit_wait_seconds',
    help: 'How long calls waited for a permit on this pod, without their time in the queue.',
    labels: ['downstream'],
  },
  downstreamReplies: {
    kind: 'counter',
    name: 'fleetline_downstream_responses_total',
    help: 'Calls by how they ended: ok, refused, timeout, server (an error of the provider) or client, which says nothing about the provider.',
    labels: ['downstream', 'class'],
  },
  downstreamCuts: {
    kind: 'counter',
    name: 'fleetline_downstream_cuts_total',
    help: 'How often this pod cut its own limit, by reason: refused, timeout, server or latency. One overload counts once.',
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
    help: "This pod's share of what the provider takes; its safe share once the lease has expired.",
    labels: ['downstream'],
  },
  downstreamInFlight: {
    kind: 'gauge',
    name: 'fleetline_downstream_in_flight',
    help: 'Permits in use on this pod.',
    labels: ['downstream'],
  },
  downstreamWaiting: {
    kind: 'gauge',
    name: 'fleetline_downstream_waiting',
    help: 'Calls that wait for a permit on this pod.',
    labels: ['downstream'],
  },
  appends: {
    kind: 'counter',
    name: 'fleetline_appends_total',
    help: 'Messages by outcome: stored, repeated, not-found, conflict, stale; or failed, which says nothing about the log.',
    labels: ['outcome'],
  },
  appendTime: {
    kind: 'seconds',
    name: 'fleetline_append_seconds',
    help: 'Time from a message reaching the write path to its answer, including the wait for a batch and the commit.',
    labels: ['outcome'],
  },
  agentCalls: {
    kind: 'counter',
    name: 'fleetline_agent_calls_total',
    help: 'Agent calls by outcome: answered, aborted (stopped, fenced, or the pod drains), later (the agent asked for time), thrown (by an agent in code), or the code of the fault.',
    labels: ['outcome'],
  },
  agentChunksIgnored: {
    kind: 'counter',
    name: 'fleetline_agent_chunks_ignored_total',
    help: 'Chunks that agents sent after finish, error or abort. Nobody sees them.',
    labels: [],
  },
  rewrites: {
    kind: 'counter',
    name: 'fleetline_rewrites_total',
    help: 'Requests to regenerate or edit, by outcome: rewritten, repeated, stale, conflict, no-message, unfit, gone, not-found.',
    labels: ['outcome'],
  },
  turnsEnded: {
    kind: 'counter',
    name: 'fleetline_turns_ended_total',
    help: 'Ends of turns: done, failed, stopped; or fenced (changed nothing: another attempt or turn is current).',
    labels: ['outcome'],
  },
  compactions: {
    kind: 'counter',
    name: 'fleetline_compactions_total',
    help: 'Ends of compactions (summaries of long conversations): done, failed; or fenced (changed nothing: another attempt is current, or the compaction has already ended).',
    labels: ['outcome'],
  },
  tokens: {
    kind: 'counter',
    name: 'fleetline_tokens_total',
    help: 'Model tokens that agents have reported, by kind: input, output, cache_read, cache_write, reasoning. The first and the second contain the others.',
    labels: ['kind'],
  },
  attemptsReported: {
    kind: 'counter',
    name: 'fleetline_attempts_total',
    help: 'Attempts of turns that called their agent on this pod, by whether the agent reported how many tokens it used: true or false.',
    labels: ['reported'],
  },
  haltTime: {
    kind: 'seconds',
    name: 'fleetline_halt_seconds',
    help: "Time from stopping a running turn until its agent's call had ended or its pod was dead.",
    labels: [],
  },
  followers: {
    kind: 'gauge',
    name: 'fleetline_followers',
    help: 'Followers on this pod, of sessions and of inboxes. The limit is the setting maxFollowers.',
    labels: [],
  },
  followBytes: {
    kind: 'gauge',
    name: 'fleetline_follow_bytes',
    help: 'Bytes that were sent to followers, or are about to be, and that they have not read yet. The limit is the setting followBytes.',
    labels: [],
  },
  followersCut: {
    kind: 'counter',
    name: 'fleetline_followers_cut_total',
    help: 'Followers that were disconnected because they read too slowly while others waited for memory.',
    labels: [],
  },
  erasedMessages: {
    kind: 'counter',
    name: 'fleetline_erased_messages_total',
    help: 'Messages that were erased by a request for them, or for their author.',
    labels: [],
  },
  erasedSessions: {
    kind: 'counter',
    name: 'fleetline_erased_sessions_total',
    help: 'Sessions that were erased, by cause: request, or retention (their time is over).',
    labels: ['cause'],
  },
  inboxFollowers: {
    kind: 'gauge',
    name: 'fleetline_inbox_followers',
    help: 'Followers of inboxes on this pod.',
    labels: [],
  },
  inboxSessions: {
    kind: 'gauge',
    name: 'fleetline_inbox_sessions',
    help: 'Sessions that this pod watches for the followers of inboxes: at most the newest 1,000 of each user.',
    labels: [],
  },
  openBytes: {
    kind: 'gauge',
    name: 'fleetline_open_bytes',
    help: 'Bytes of running replies: kept for readers that join (kept), and not yet written for other pods (unwritten).',
    labels: ['kind'],
  },
  streams: {
    kind: 'gauge',
    name: 'fleetline_streams',
    help: 'Streams of turns: running on this pod and written for others (written), running elsewhere and followed here (read).',
    labels: ['kind'],
  },
  chunkTime: {
    kind: 'seconds',
    name: 'fleetline_chunk_seconds',
    help: 'How long it took to write or read chunks. One statement per tick covers all streams.',
    labels: ['statement', 'outcome'],
  },
  lookupLag: {
    kind: 'gauge',
    name: 'fleetline_lookup_lag_seconds',
    help: 'How long the oldest request to look up a head has waited. It grows while PostgreSQL cannot be read.',
    labels: [],
  },
} as const satisfies Record<string, Metric>

type Table = typeof METRICS
type Named<Kind> = { [Key in keyof Table]: Table[Key]['kind'] extends Kind ? Key : never }[keyof Table]
type Labels<Key extends keyof Table> = Readonly<Record<Table[Key]['labels'][number], string>>

export type Metrics = {
  count<Key extends Named<'counter'>>(key: Key, labels: Labels<Key>, by?: number): void
  observe<Key extends Named<'seconds'>>(key: Key, labels: Labels<Key>, ms: number): void
  /** Each scrape calls `read`. */
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
        gauges.get(key)!.reset() // a series of the last scrape may no longer exist
        read().forEach(([labels, value]) => gauges.get(key)!.set(labels, value))
      }),
    text: () => {
      readings.forEach((read) => read())
      return registry.metrics()
    },
  }
}
