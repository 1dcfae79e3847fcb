// Every setting, once: its names, its default, why that default. docs/reference/config.md is made of it.
import { MAX_CELL } from '@fleetline/protocol'
import { hostsOf } from './lib/hosts.ts'
import {
  hidden,
  httpUrl,
  keyOrNone,
  label,
  oneOf,
  postgresUrl,
  whole,
  withoutPassword,
  yesOrNo,
} from './lib/setting-values.ts'

export type Setting<Value> = {
  readonly env: string
  /** If it is not its name: `databaseUrl` is `--database-url`. */
  readonly flag?: string
  readonly parse: (text: string) => Value | undefined
  readonly expects: string
  readonly fallback: string
  readonly reason: string
  /** How it is shown to people, if it may hold a secret. */
  readonly show?: (text: string) => string
}
export const SETTINGS = {
  databaseUrl: {
    env: 'DATABASE_URL',
    parse: postgresUrl,
    expects: 'a URL that begins with postgres:// or postgresql://',
    fallback: 'postgres://localhost:5432/fleetline',
    reason: 'where a new PostgreSQL listens',
    show: withoutPassword,
  },
  host: {
    env: 'FLEETLINE_HOST',
    parse: oneOf('127.0.0.1', '::1', 'localhost'),
    expects: '127.0.0.1, ::1 or localhost: there are no keys yet, so a pod answers on its own machine alone',
    fallback: '127.0.0.1',
    reason: 'nobody else reaches it',
  },
  port: {
    env: 'FLEETLINE_PORT',
    parse: whole(0, 65_535),
    expects: 'a port from 0 to 65535; 0 takes any that is free',
    fallback: '4400',
    reason: 'for applications; no well-known service has it',
  },
  operatorPort: {
    env: 'FLEETLINE_OPERATOR_PORT',
    parse: whole(0, 65_535),
    expects: 'a port from 0 to 65535; 0 takes any that is free',
    fallback: '4401',
    reason: 'for probes and operators; apart, so that a firewall can tell them apart',
  },
  apiUrl: {
    env: 'FLEETLINE_URL',
    flag: '--url',
    parse: httpUrl,
    expects: 'a URL that begins with http:// or https://',
    fallback: 'http://localhost:4400',
    reason: 'where `fleetline dev` listens; for commands that ask a fleet, not for a pod',
  },
  operatorUrl: {
    env: 'FLEETLINE_OPERATOR_URL',
    parse: httpUrl,
    expects: 'a URL that begins with http:// or https://',
    fallback: 'http://localhost:4401',
    reason: 'where `fleetline dev` listens for operators; for commands that ask a fleet, not for a pod',
  },
  logLevel: {
    env: 'FLEETLINE_LOG_LEVEL',
    parse: oneOf('debug', 'info', 'warn', 'error'),
    expects: 'debug, info, warn or error',
    fallback: 'info',
    reason: 'what changes, not what is asked: a line per request is for debugging',
  },
  cell: {
    env: 'FLEETLINE_CELL',
    parse: whole(0, MAX_CELL),
    expects: `a whole number from 0 to ${MAX_CELL}`,
    fallback: '0',
    reason: 'the first cell; ids made here carry it for ever',
  },
  poolSize: {
    env: 'FLEETLINE_POOL_SIZE',
    parse: whole(1, 100),
    expects: 'a whole number from 1 to 100',
    fallback: '10',
    reason: 'batches need few connections, and 50 pods stay under 500 on one server',
  },
  transactionDeadlineMs: {
    env: 'FLEETLINE_TRANSACTION_DEADLINE_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '5000',
    reason:
      'how long a read or write may take; then it fails with `unavailable`. The write may still have been stored, so retry it with the same id',
  },
  lockTimeoutMs: {
    env: 'FLEETLINE_LOCK_TIMEOUT_MS',
    parse: whole(10, 60_000),
    expects: 'milliseconds from 10 to 60000',
    fallback: '2000',
    reason:
      'how long a statement waits for a locked row; then its transaction is rolled back, so that transactions behind it do not wait too',
  },
  idleTransactionMs: {
    env: 'FLEETLINE_IDLE_TRANSACTION_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '3000',
    reason: 'a pod that stands still or is cut off keeps no lock for longer',
  },
  hintPollMs: {
    env: 'FLEETLINE_HINT_POLL_MS',
    parse: whole(50, 60_000),
    expects: 'milliseconds from 50 to 60000',
    fallback: '1000',
    reason: 'the most that a lost hint may cost',
  },
  podName: {
    env: 'FLEETLINE_POD_NAME',
    parse: label,
    expects: 'up to 63 letters, digits, dots, dashes and underscores; empty takes the name of the host',
    fallback: '',
    reason: 'for people: orchestrators name the host after the pod; nothing is decided by it',
  },
  beatMs: {
    env: 'FLEETLINE_BEAT_MS',
    parse: whole(50, 60_000),
    expects: 'milliseconds from 50 to 60000',
    fallback: '1000',
    reason: 'how often a pod says that it lives; five of them fit into the ttl',
  },
  ttlMs: {
    env: 'FLEETLINE_TTL_MS',
    parse: whole(1_000, 600_000),
    expects: 'milliseconds from 1000 to 600000, the same on every pod',
    fallback: '5000',
    reason: 'a pod silent for so long is dead; longer than any pause of a healthy one, shorter than patience',
  },
  slots: {
    env: 'FLEETLINE_SLOTS',
    parse: whole(1, 10_000),
    expects: 'a whole number from 1 to 10000',
    fallback: '50',
    reason:
      'how many tasks a pod runs at once, beside its turns: they wait for others; a pod whose main loop is busy takes fewer',
  },
  turnSlots: {
    env: 'FLEETLINE_TURN_SLOTS',
    parse: whole(1, 10_000),
    expects: 'a whole number from 1 to 10000',
    fallback: '1000',
    reason:
      'how many agents a pod lets answer at once: a person waits for each, and a reply is mostly waiting; a pod whose main loop is busy takes fewer',
  },
  taskPollMs: {
    env: 'FLEETLINE_TASK_POLL_MS',
    parse: whole(10, 2_000),
    expects: 'milliseconds from 10 to 2000',
    fallback: '200',
    reason: 'the most that a task waits for a free pod if its hint was lost; a claim of nothing costs little',
  },
  drainMs: {
    env: 'FLEETLINE_DRAIN_MS',
    parse: whole(0, 3_600_000),
    expects: 'milliseconds from 0 to 3600000',
    fallback: '15000',
    reason:
      'how long running tasks and turns may continue after a stop begins; then the pod hands them back. The defaults of drainMs and stopMs add up to 25 s, less than the 30 s that orchestrators allow',
  },
  unreadyMs: {
    env: 'FLEETLINE_UNREADY_MS',
    parse: whole(0, 600_000),
    expects: 'milliseconds from 0 to 600000',
    fallback: '5000',
    reason:
      'a pod that stops answers for so long after /readyz says so: a balancer that checks each second has left it by then',
  },
  throttle: {
    env: 'FLEETLINE_THROTTLE',
    parse: oneOf('enforce', 'observe', 'off'),
    expects: 'enforce, observe or off',
    fallback: 'enforce',
    reason:
      'what providers refuse is slower than what waits; observe is the way into a live system, off the way out',
  },
  demoAgent: {
    env: 'FLEETLINE_DEMO_AGENT',
    parse: yesOrNo,
    expects: 'yes or no',
    fallback: 'no',
    reason: '`fleetline dev` says yes: an agent that needs no model; a fleet with users has its own',
  },
  secretsKey: {
    env: 'FLEETLINE_SECRETS_KEY',
    parse: keyOrNone,
    expects: 'the base64 of 32 bytes, the same on every pod (openssl rand -base64 32); empty for none',
    fallback: '',
    reason: 'no key that others know; without one, no agent behind a URL can be added or called',
    show: hidden,
  },
  agentHosts: {
    env: 'FLEETLINE_AGENT_HOSTS',
    parse: hostsOf,
    expects: 'host names, addresses and ranges of addresses, with commas: agents.internal,10.1.0.0/16',
    fallback: '',
    reason:
      'agents are called from inside your network: without leave only at public addresses, by https, on port 443',
  },
  agentFirstMs: {
    env: 'FLEETLINE_AGENT_FIRST_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '30000',
    reason: 'until an agent says something, if only a comment: the slowest honest start of one that slept',
  },
  agentSilenceMs: {
    env: 'FLEETLINE_AGENT_SILENCE_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '60000',
    reason: 'in the middle of an answer: models think, and what is silent for longer is gone',
  },
  bodyLimitBytes: {
    env: 'FLEETLINE_BODY_LIMIT_BYTES',
    parse: whole(1_024, 67_108_864),
    expects: 'bytes from 1024 to 67108864',
    fallback: '1048576',
    reason: 'four of the largest messages, JSON around them',
  },
  headerTimeoutMs: {
    env: 'FLEETLINE_HEADER_TIMEOUT_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '10000',
    reason: 'the slowest honest network, and little for who holds sockets open',
  },
  requestTimeoutMs: {
    env: 'FLEETLINE_REQUEST_TIMEOUT_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '30000',
    reason: 'the largest body over a slow network',
  },
  requestsPerSocket: {
    env: 'FLEETLINE_REQUESTS_PER_SOCKET',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '1000',
    reason: 'sockets spread again over pods that came later',
  },
  stallMs: {
    env: 'FLEETLINE_STALL_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '10000',
    reason: 'a reader that stalls so long is disconnected, so that it does not hold memory',
  },
  maxFollowers: {
    env: 'FLEETLINE_MAX_FOLLOWERS',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '10000',
    reason: 'a bound on the sockets that a pod holds open; more pods take more',
  },
  followBytes: {
    env: 'FLEETLINE_FOLLOW_BYTES',
    parse: whole(1_048_576, 68_719_476_736),
    expects: 'bytes from 1048576 to 68719476736',
    fallback: '134217728',
    reason:
      'what all followers of a pod together have been sent and not taken; with more, they wait, and the slowest is closed',
  },
  openTurnBytes: {
    env: 'FLEETLINE_OPEN_TURN_BYTES',
    parse: whole(65_536, 1_073_741_824),
    expects: 'bytes from 65536 to 1073741824',
    fallback: '8388608',
    reason:
      'what a pod keeps of one reply that is under way, for who joins: twice the longest reply; beyond that its beginning goes',
  },
  openBytes: {
    env: 'FLEETLINE_OPEN_BYTES',
    parse: whole(1_048_576, 68_719_476_736),
    expects: 'bytes from 1048576 to 68719476736',
    fallback: '268435456',
    reason: 'the memory of a pod for all replies that are under way; a reply of one page of text takes 10 KB',
  },
  stopMs: {
    env: 'FLEETLINE_STOP_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '10000',
    reason:
      'how long all parts of a pod together may take to close, even if PostgreSQL does not answer; it counts from the end of drainMs or unreadyMs, whichever is later',
  },
} as const satisfies Record<string, Setting<unknown>>
