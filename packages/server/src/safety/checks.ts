// Judges whether a pod is safe: pure. One check for each name of `allowInsecure`; a check says what it found, and what to do about
// it. No text contains a secret.
import type { Config } from '../config.ts'
import type { InsecureName } from '../lib/insecure.ts'
import { isLoopbackAddress } from '../lib/loopback.ts'
import { SETTINGS } from '../settings.ts'
import { newClient } from '../store/client.ts'
import type { ServerFacts } from './server.ts'

export type SafetyCheck = {
  readonly name: InsecureName
  readonly isOk: boolean
  readonly found: string
  readonly remedy: string
}
export type SafetyFacts = {
  readonly config: Pick<Config, 'host' | 'corsOrigins' | 'databaseUrl' | 'secretsKey' | 'tokenKeys'>
  readonly server: ServerFacts
  /** There is an API key that has not ended, or an issuer of tokens. */
  readonly hasLogin: boolean
}

const OLDEST = 150_000
const GUESSED_BYTES = 8 // 32 random bytes have fewer than 8 different values with a probability of about 1e-37
const DURABLE = ['on', 'remote_apply']
const DEV_KEY = 'dev' // `fleetline dev` names its token key so

export function checksOf({ config, server, hasLogin }: SafetyFacts): SafetyCheck[] {
  return [
    checkAuthentication(config.host, hasLogin),
    ...checkSettings(config),
    checkTls(config.databaseUrl),
    ...checkServer(server),
  ]
}

/** What needs no database. */
export function checkSettings(config: SafetyFacts['config']): SafetyCheck[] {
  return [checkOrigins(config.corsOrigins), checkSecrets(config)]
}

export function checkServer(server: ServerFacts): SafetyCheck[] {
  return [
    {
      name: 'fsync',
      isOk: server.fsync === 'on',
      found: `fsync is ${server.fsync}`,
      remedy: 'Set fsync = on in postgresql.conf: without it, a power failure loses what was committed',
    },
    {
      name: 'synchronous-commit',
      isOk: DURABLE.includes(server.synchronousCommit),
      found: `synchronous_commit is ${server.synchronousCommit}`,
      remedy: `Set synchronous_commit to on or remote_apply for the role: alter role ${server.role} set synchronous_commit = on`,
    },
    {
      name: 'superuser',
      isOk: !server.isSuperuser,
      found: `the role ${server.role} is ${server.isSuperuser ? 'a superuser' : 'no superuser'}`,
      remedy:
        'Use a role that is no superuser. For a new database: create role fleetline login password …; then create database fleetline owner fleetline, and name both in DATABASE_URL. For an existing one: grant the rights that fleetline doctor lists',
    },
    {
      name: 'postgres-version',
      isOk: server.version >= OLDEST,
      found: `PostgreSQL is ${Math.floor(server.version / 10_000)}.${server.version % 10_000}`,
      remedy: 'Use PostgreSQL 15 or newer',
    },
  ]
}

export function checkAuthentication(host: string, hasLogin: boolean): SafetyCheck {
  const isLocal = isLoopbackAddress(host)
  const keys = hasLogin
    ? 'there is a live API key or an issuer of tokens'
    : 'there is no live API key and no issuer of tokens'
  return {
    name: 'authentication',
    isOk: isLocal || hasLogin,
    found: `the pod listens on ${host}${isLocal ? ', for this machine only' : ''}, and ${keys}`,
    remedy:
      'Create a key (fleetline tenants create NAME, then fleetline keys create backend --tenant NAME), or set FLEETLINE_HOST=127.0.0.1',
  }
}

function checkOrigins({ isAny }: Config['corsOrigins']): SafetyCheck {
  return {
    name: 'origins',
    isOk: !isAny,
    found: isAny
      ? `${SETTINGS.corsOrigins.env} contains *, so pages of every origin may read answers`
      : `${SETTINGS.corsOrigins.env} does not contain *`,
    remedy: 'Name the origins of your pages in FLEETLINE_CORS_ORIGINS instead of *',
  }
}

function checkSecrets({ secretsKey, tokenKeys }: Pick<Config, 'secretsKey' | 'tokenKeys'>): SafetyCheck {
  const [secret, ring] = [SETTINGS.secretsKey.env, SETTINGS.tokenKeys.env]
  const isWeak = secretsKey !== null && isGuessed(secretsKey)
  const isOfDev = tokenKeys.some(({ id }) => id === DEV_KEY)
  const weakIds = tokenKeys.filter((key) => isGuessed(key.secret)).map(({ id }) => id)
  const badIds = tokenKeys.map(({ id }) => id).filter((id) => id === DEV_KEY || weakIds.includes(id))
  const found = [
    ...(isWeak ? [`${secret} can be guessed`] : []),
    ...weakIds.map((id) => `the key ${id} in ${ring} can be guessed`),
    ...(isOfDev ? [`${ring} contains the key dev, which is that of fleetline dev`] : []),
  ]
  const remedy = [
    ...(isWeak
      ? [
          `Set ${secret} on every pod to the result of openssl rand -base64 32. Then give each agent behind a URL a new secret with fleetline agents set NAME --secret-file FILE, or remove and add it`,
        ]
      : []),
    ...badIds.map(
      (id) =>
        `Replace the key ${id} in ${ring} on every pod by ID:KEY, where KEY is the result of openssl rand -base64 32${id === DEV_KEY ? ', with another id than dev' : ''}`,
    ),
  ]
  return {
    name: 'secrets',
    isOk: found.length === 0,
    found: found.join(', and ') || 'no secret can be guessed, and no token key is that of fleetline dev',
    remedy: remedy.join('. '),
  }
}

/** People type keys such as thirty-two zeros. */
function isGuessed(secret: Uint8Array): boolean {
  return new Set(secret).size < GUESSED_BYTES
}

/** Of a connection that works. */
export function checkTls(databaseUrl: string): SafetyCheck {
  const { host, ssl } = newClient(databaseUrl) // resolves the URL and PGSSLMODE as a pod does
  const usesTls = (ssl as unknown) !== false // otherwise it holds the options of TLS
  const isLocal = host.startsWith('/') || isLoopbackAddress(host)
  return {
    name: 'tls',
    isOk: isLocal || usesTls,
    found: isLocal
      ? 'the database is on this machine'
      : `the connection to ${host} ${usesTls ? 'uses TLS' : 'does not use TLS'}`,
    remedy:
      'Add sslmode=verify-full to DATABASE_URL, and sslrootcert=FILE if your own authority has signed the certificate of the server',
  }
}
