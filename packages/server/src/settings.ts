// Every setting, once: what it controls, its names, its values, its default and why. docs/reference/config.md is generated from it.
import { MAX_CELL } from '@fleetline/protocol'
import { addressesOf, hostsOf } from './lib/hosts.ts'
import { INSECURE, INSECURE_NAMES } from './lib/insecure.ts'
import { originsOf } from './lib/origins.ts'
import {
  apiKeyOrNone,
  hidden,
  hostName,
  httpUrl,
  keyOrNone,
  label,
  listOf,
  oneOf,
  postgresUrl,
  tokenKeysOf,
  whole,
  withoutPassword,
  yesOrNo,
} from './lib/setting-values.ts'

export type Setting<Value> = {
  /** What it controls. */
  readonly purpose: string
  readonly env: string
  /** Set only if the flag differs from the setting's name. The flag of `databaseUrl` is `--database-url`. */
  readonly flag?: string
  readonly parse: (text: string) => Value | undefined
  readonly expects: string
  readonly fallback: string
  /** Why this default. */
  readonly reason: string
  /** It is secret. Other users of the machine can read the command line, so its flag takes a file: `--secrets-key-file`. */
  readonly isSecret?: true
  /** How it is shown to people, if it may hold a secret. */
  readonly show?: (text: string) => string
}
export const SETTINGS = {
  databaseUrl: {
    purpose: 'the PostgreSQL database of the fleet',
    env: 'DATABASE_URL',
    parse: postgresUrl,
    expects:
      'a URL that begins with postgres:// or postgresql://, in which special characters of the password are percent-encoded (/ as %2F)',
    fallback: 'postgres://localhost:5432/fleetline',
    reason: 'a new PostgreSQL listens there',
    show: withoutPassword,
  },
  host: {
    purpose:
      'the address that a pod listens on; to listen on other addresses than loopback, create an API key first',
    env: 'FLEETLINE_HOST',
    parse: hostName,
    expects: 'an address or a host name of this machine; 0.0.0.0 or :: for all addresses',
    fallback: '127.0.0.1',
    reason: 'only this machine can reach it',
  },
  port: {
    purpose: 'the port for applications',
    env: 'FLEETLINE_PORT',
    parse: whole(0, 65_535),
    expects: 'a port from 0 to 65535; 0 picks a free one',
    fallback: '4400',
    reason: 'no well-known service uses it',
  },
  operatorPort: {
    purpose: 'the port for probes, metrics and operators',
    env: 'FLEETLINE_OPERATOR_PORT',
    parse: whole(0, 65_535),
    expects: 'a port from 0 to 65535; 0 picks a free one',
    fallback: '4401',
    reason: 'a port of its own, so that a firewall can close it',
  },
  apiUrl: {
    purpose: 'the fleet that a command talks to; a pod does not read it',
    env: 'FLEETLINE_URL',
    flag: '--url',
    parse: httpUrl,
    expects: 'a URL that begins with http:// or https://',
    fallback: 'http://localhost:4400',
    reason: '`fleetline dev` listens there',
  },
  operatorUrl: {
    purpose:
      'the operator port that a command talks to; if it is set, commands for tenants, keys, issuers and the audit log use it instead of the database; a pod does not read it',
    env: 'FLEETLINE_OPERATOR_URL',
    parse: httpUrl,
    expects: 'a URL that begins with http:// or https://',
    fallback: 'http://localhost:4401',
    reason: '`fleetline dev` listens there',
  },
  apiKey: {
    purpose: 'the API key that a command sends; a pod does not read it',
    env: 'FLEETLINE_API_KEY',
    parse: apiKeyOrNone,
    expects: 'a key as `fleetline keys create` prints it (fl_…); empty for none',
    fallback: '',
    reason: '`fleetline dev` needs none on its own machine',
    isSecret: true,
    show: hidden,
  },
  allowInsecure: {
    purpose: `safety checks that may fail without keeping a pod from starting, separated by commas. ${Object.entries(
      INSECURE,
    )
      .map(([name, allows]) => `\`${name}\`: ${allows}`)
      .join('. ')}`,
    env: 'FLEETLINE_ALLOW_INSECURE',
    parse: listOf(...INSECURE_NAMES),
    expects: `some of ${INSECURE_NAMES.join(', ')}; empty for nothing`,
    fallback: '',
    reason: 'only `fleetline dev` is insecure',
  },
  corsOrigins: {
    purpose:
      'the origins of web pages whose scripts may read answers of the port for applications (CORS), and open sockets',
    env: 'FLEETLINE_CORS_ORIGINS',
    parse: originsOf,
    expects:
      'origins, separated by commas: https://app.example.com,http://localhost:5173. `loopback` stands for all pages of this machine, `*` for all pages; empty for none',
    fallback: '',
    reason: 'a page whose own server forwards its requests needs no CORS',
  },
  trustedProxies: {
    purpose:
      'the proxies and load balancers in front of the pods. A pod reads the address of a client from the header `x-forwarded-for` only if one of these sends it',
    env: 'FLEETLINE_TRUSTED_PROXIES',
    parse: addressesOf,
    expects: 'addresses and address ranges, separated by commas: 10.0.0.0/8,::1; empty for none',
    fallback: '',
    reason: 'other senders could claim any address in this header',
  },
  logLevel: {
    purpose: 'how much a pod logs',
    env: 'FLEETLINE_LOG_LEVEL',
    parse: oneOf('debug', 'info', 'warn', 'error'),
    expects: 'debug, info, warn or error',
    fallback: 'info',
    reason: 'state changes, but not every request',
  },
  cell: {
    purpose: 'the number of this cell; every id that is created here carries it forever',
    env: 'FLEETLINE_CELL',
    parse: whole(0, MAX_CELL),
    expects: `a whole number from 0 to ${MAX_CELL}`,
    fallback: '0',
    reason: 'the first cell',
  },
  poolSize: {
    purpose: 'how many connections a pod opens for transactions',
    env: 'FLEETLINE_POOL_SIZE',
    parse: whole(1, 100),
    expects: 'a whole number from 1 to 100',
    fallback: '10',
    reason: 'writes are batched and need few connections; 50 pods stay under 500 on one server',
  },
  transactionDeadlineMs: {
    purpose:
      'how long a read or write may take; then it fails with `unavailable`. The write may still have been stored, so retry it with the same id',
    env: 'FLEETLINE_TRANSACTION_DEADLINE_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '5000',
    reason: 'a caller should hear within seconds that a request failed',
  },
  lockTimeoutMs: {
    purpose:
      'how long a statement waits for a locked row; then its transaction is rolled back, so that transactions behind it do not wait too',
    env: 'FLEETLINE_LOCK_TIMEOUT_MS',
    parse: whole(10, 60_000),
    expects: 'milliseconds from 10 to 60000',
    fallback: '2000',
    reason: 'a lock is usually held for milliseconds',
  },
  idleTransactionMs: {
    purpose:
      'how long a pod that stalls or loses its network may keep a transaction open; then PostgreSQL ends it and frees its locks',
    env: 'FLEETLINE_IDLE_TRANSACTION_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '3000',
    reason: 'less than transactionDeadlineMs, so that others still get the row in time',
  },
  hintPollMs: {
    purpose: 'how often a pod polls for changes whose hint was lost',
    env: 'FLEETLINE_HINT_POLL_MS',
    parse: whole(50, 60_000),
    expects: 'milliseconds from 50 to 60000',
    fallback: '1000',
    reason: 'a lost hint delays a reader by one second at most',
  },
  podName: {
    purpose: 'the name of a pod in logs and lists; nothing depends on it',
    env: 'FLEETLINE_POD_NAME',
    parse: label,
    expects: 'up to 63 letters, digits, dots, dashes and underscores; empty uses the host name',
    fallback: '',
    reason: 'orchestrators name the host after the pod',
  },
  beatMs: {
    purpose: 'how often a pod reports that it is alive',
    env: 'FLEETLINE_BEAT_MS',
    parse: whole(50, 60_000),
    expects: 'milliseconds from 50 to 60000',
    fallback: '1000',
    reason: 'five beats fit into the default of ttlMs',
  },
  ttlMs: {
    purpose: 'how long a pod may be silent before it counts as dead',
    env: 'FLEETLINE_TTL_MS',
    parse: whole(1_000, 600_000),
    expects: 'milliseconds from 1000 to 600000, the same on every pod',
    fallback: '5000',
    reason: 'longer than a pause of a healthy pod, shorter than users wait',
  },
  slots: {
    purpose: 'how many tasks a pod runs at once, besides its turns; a pod with a busy main loop takes fewer',
    env: 'FLEETLINE_SLOTS',
    parse: whole(1, 10_000),
    expects: 'a whole number from 1 to 10000',
    fallback: '50',
    reason: 'most tasks wait for something else',
  },
  turnSlots: {
    purpose: 'how many agents may reply at once on a pod; a pod with a busy main loop takes fewer',
    env: 'FLEETLINE_TURN_SLOTS',
    parse: whole(1, 10_000),
    expects: 'a whole number from 1 to 10000',
    fallback: '1000',
    reason: 'a person waits for each reply, and a reply is mostly waiting',
  },
  taskPollMs: {
    purpose: 'how often a pod with free slots looks for tasks whose hint was lost',
    env: 'FLEETLINE_TASK_POLL_MS',
    parse: whole(10, 2_000),
    expects: 'milliseconds from 10 to 2000',
    fallback: '200',
    reason: 'a claim that finds nothing costs little',
  },
  drainMs: {
    purpose:
      'how long running tasks and turns may continue after a stop or a drain begins; then the pod hands them back',
    env: 'FLEETLINE_DRAIN_MS',
    parse: whole(0, 3_600_000),
    expects: 'milliseconds from 0 to 3600000',
    fallback: '120000',
    reason:
      'most replies end by then. A pod stops as soon as nothing runs. Orchestrators must allow more than drainMs and stopMs together, such as 135 s: Kubernetes by terminationGracePeriodSeconds, systemd by TimeoutStopSec',
  },
  unreadyMs: {
    purpose: 'how long a pod keeps answering requests after `/readyz` reports that it stops',
    env: 'FLEETLINE_UNREADY_MS',
    parse: whole(0, 600_000),
    expects: 'milliseconds from 0 to 600000',
    fallback: '5000',
    reason: 'a load balancer that checks every second has stopped sending by then',
  },
  throttle: {
    purpose:
      'whether calls wait for permits: `enforce` makes them wait, `observe` only learns and counts, `off` disables it',
    env: 'FLEETLINE_THROTTLE',
    parse: oneOf('enforce', 'observe', 'off'),
    expects: 'enforce, observe or off',
    fallback: 'enforce',
    reason: 'waiting is cheaper than being rejected',
  },
  demoAgent: {
    purpose: 'whether the pod has an agent named `demo` that needs no model',
    env: 'FLEETLINE_DEMO_AGENT',
    parse: yesOrNo,
    expects: 'yes or no',
    fallback: 'no',
    reason: 'only `fleetline dev` turns it on',
  },
  secretsKey: {
    purpose:
      'the key that encrypts the secrets of agents; without it no agent behind a URL can be added or called',
    env: 'FLEETLINE_SECRETS_KEY',
    parse: keyOrNone,
    expects: 'the base64 of 32 bytes, the same on every pod (openssl rand -base64 32); empty for none',
    fallback: '',
    reason: 'a default key would be known to everybody',
    isSecret: true,
    show: hidden,
  },
  tokenKeys: {
    purpose:
      'the keys that sign tokens of users; the first one signs, all of them are accepted. Without it no token can be minted',
    env: 'FLEETLINE_TOKEN_KEYS',
    parse: tokenKeysOf,
    expects:
      'pairs id:secret, separated by commas, the same on every pod. A secret is the base64 of at least 32 bytes (openssl rand -base64 32). Empty for none',
    fallback: '',
    reason: 'a default key would be known to everybody',
    isSecret: true,
    show: hidden,
  },
  auditDays: {
    purpose:
      'how many days the audit log keeps a row; those of minted tokens and of unknown callers are kept for 30 days at most',
    env: 'FLEETLINE_AUDIT_DAYS',
    parse: whole(1, 3_650),
    expects: 'days from 1 to 3650, the same on every pod',
    fallback: '400',
    reason: 'a year, and time to look at it afterwards',
  },
  agentHosts: {
    purpose:
      'hosts at which agents may be called although their addresses are not public; set it on every pod',
    env: 'FLEETLINE_AGENT_HOSTS',
    parse: hostsOf,
    expects: 'host names, addresses and address ranges, separated by commas: agents.internal,10.1.0.0/16',
    fallback: '',
    reason:
      'agents are called from inside your network, so only public addresses are allowed: https, port 443',
  },
  agentFirstMs: {
    purpose: 'how long an agent may take until its first byte; a comment counts',
    env: 'FLEETLINE_AGENT_FIRST_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '30000',
    reason: 'a server that was asleep needs some time to start',
  },
  agentSilenceMs: {
    purpose: 'how long an agent may be silent in the middle of a reply; a comment counts',
    env: 'FLEETLINE_AGENT_SILENCE_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '60000',
    reason: 'models pause to think',
  },
  bodyLimitBytes: {
    purpose: 'the largest request body',
    env: 'FLEETLINE_BODY_LIMIT_BYTES',
    parse: whole(1_024, 67_108_864),
    expects: 'bytes from 1024 to 67108864',
    fallback: '1048576',
    reason: 'room for four of the largest messages',
  },
  chatBodyLimitBytes: {
    purpose: 'the largest body of a request of the AI SDK, which sends the whole conversation each time',
    env: 'FLEETLINE_CHAT_BODY_LIMIT_BYTES',
    parse: whole(1_024, 67_108_864),
    expects: 'bytes from 1024 to 67108864',
    fallback: '4194304',
    reason: 'pods use only the last message; conversations of this size are rare',
  },
  headerTimeoutMs: {
    purpose: 'how long a client may take to send the headers of a request',
    env: 'FLEETLINE_HEADER_TIMEOUT_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '10000',
    reason: 'enough for a slow network, too short to hold sockets open on purpose',
  },
  requestTimeoutMs: {
    purpose: 'how long a client may take to send a whole request',
    env: 'FLEETLINE_REQUEST_TIMEOUT_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '30000',
    reason: 'enough for the largest body over a slow network',
  },
  requestsPerSocket: {
    purpose: 'how many requests a client may send over one connection; then the pod closes it',
    env: 'FLEETLINE_REQUESTS_PER_SOCKET',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '1000',
    reason: 'clients spread over pods that started later',
  },
  sessionRate: {
    purpose:
      'how many messages a second users may append to one session on one pod; four seconds’ worth may come at once. Messages of applications do not count',
    env: 'FLEETLINE_SESSION_RATE',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '10',
    reason: 'more than people in one conversation write',
  },
  userRate: {
    purpose: 'how many requests a second one user may send to one pod; four seconds’ worth may come at once',
    env: 'FLEETLINE_USER_RATE',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '20',
    reason: 'a page that opens many sessions stays below',
  },
  keyRate: {
    purpose:
      'how many requests a second callers with one API key may send to one pod; four seconds’ worth may come at once',
    env: 'FLEETLINE_KEY_RATE',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '500',
    reason: 'half of tenantRate, so one faulty program does not stop the others of its tenant',
  },
  tenantRate: {
    purpose:
      'how many requests a second the keys and the users of one tenant may send to one pod, together; four seconds’ worth may come at once',
    env: 'FLEETLINE_TENANT_RATE',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '1000',
    reason: 'less than a pod can answer, so other tenants are served too',
  },
  loginRate: {
    purpose:
      'how many logins from one address may fail in a minute on one pod. Above it, the pod rejects tickets from this address, and keys that it has not read before. Name your load balancer in `trustedProxies`, or all its callers count as one address',
    env: 'FLEETLINE_LOGIN_RATE',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '10',
    reason: 'programs fail once and are corrected; guessing needs more',
  },
  stallMs: {
    purpose: 'how long a reader may stall; then it is disconnected, so that it does not hold memory',
    env: 'FLEETLINE_STALL_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '10000',
    reason: 'a reader that comes back resumes where it was',
  },
  maxFollowers: {
    purpose: 'how many followers a pod accepts',
    env: 'FLEETLINE_MAX_FOLLOWERS',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '10000',
    reason: 'about 20 KB each; add pods for more',
  },
  maxSockets: {
    purpose: 'how many sockets a pod accepts',
    env: 'FLEETLINE_MAX_SOCKETS',
    parse: whole(1, 1_000_000),
    expects: 'a whole number from 1 to 1000000',
    fallback: '10000',
    reason: 'one for each open page; add pods for more',
  },
  followBytes: {
    purpose:
      'how much memory a pod uses for data that followers have not read yet. When it is used up, they wait, and the slowest is disconnected',
    env: 'FLEETLINE_FOLLOW_BYTES',
    parse: whole(1_048_576, 68_719_476_736),
    expects: 'bytes from 1048576 to 68719476736',
    fallback: '134217728',
    reason: 'a pod with the default limits stays below 1 GiB',
  },
  openTurnBytes: {
    purpose:
      'how much of one running reply a pod keeps for readers that join late; of a longer one it drops the beginning',
    env: 'FLEETLINE_OPEN_TURN_BYTES',
    parse: whole(65_536, 1_073_741_824),
    expects: 'bytes from 65536 to 1073741824',
    fallback: '8388608',
    reason: 'twice the longest reply',
  },
  openBytes: {
    purpose: 'how much memory a pod uses for all running replies',
    env: 'FLEETLINE_OPEN_BYTES',
    parse: whole(1_048_576, 68_719_476_736),
    expects: 'bytes from 1048576 to 68719476736',
    fallback: '268435456',
    reason: 'a page of text takes 10 KB',
  },
  stopMs: {
    purpose:
      'how long all parts of a pod together may take to close after the drain, even if PostgreSQL does not answer. The drain takes at most drainMs, or unreadyMs + 14 s if that is longer',
    env: 'FLEETLINE_STOP_MS',
    parse: whole(100, 600_000),
    expects: 'milliseconds from 100 to 600000',
    fallback: '10000',
    reason: 'see drainMs',
  },
} as const satisfies Record<string, Setting<unknown>>
