// Examines database, role and settings as a pod on this machine would find them, for `fleetline doctor`. It writes nothing. A check
// whose facts cannot be read is left out: another one is red then, and says why.
import type pg from 'pg'
import type { Config } from '../config.ts'
import type { Clock } from '../lib/clock.ts'
import { newClient, placeOf } from '../store/client.ts'
import { connectFault, reasonOf } from '../store/connect-fault.ts'
import { closeNow, connect } from '../store/connection.ts'
import type { Query } from '../store/database.ts'
import { codeNumber, readSchema, schemaFault, type SchemaVersion } from '../store/migrate.ts'
import {
  checkAuthentication,
  checkServer,
  checkSettings,
  checkTls,
  type SafetyCheck,
  type SafetyFacts,
} from './checks.ts'
import { judgeClock, readClock, type ClockFacts } from './clock-skew.ts'
import { countLivePods, judgeConnections, readLimits, type ConnectionFacts } from './connections.ts'
import { findingOf, type Finding } from './finding.ts'
import {
  countAgents,
  countIssuers,
  judgeKeys,
  judgeSecretsKey,
  judgeTokenKeys,
  readKeys,
  type KeyFacts,
} from './keys.ts'
import { accessOf, judgeRights, readRights, type RightsFacts } from './rights.ts'
import { readServer, type ServerFacts } from './server.ts'
import { judgeStandbys, readStandbys, type StandbyFacts } from './standbys.ts'

type Examined = SafetyFacts['config'] &
  Pick<Config, 'allowInsecure' | 'poolSize' | 'ttlMs' | 'transactionDeadlineMs'>
type Facts = {
  readonly server: ServerFacts
  readonly standbys: StandbyFacts
  readonly rights: RightsFacts
  readonly clock: ClockFacts
  /** This and the following are undefined if the role may not read their tables. */
  readonly connections: ConnectionFacts | undefined
  readonly schema: SchemaVersion | undefined
  readonly hasLogin: boolean | undefined
  /** Undefined also if the table does not exist. */
  readonly keys: KeyFacts | undefined
  readonly agents: number | undefined
}

export async function examine(config: Examined, clock: Clock): Promise<readonly Finding[]> {
  const judge = (check: SafetyCheck) => findingOf(check, config.allowInsecure)
  const settings = checkSettings(config).map(judge)
  const tokenKeys = judgeTokenKeys(config.tokenKeys)
  const unusable = describeUnusable(config)
  const read = unusable ? { failure: unusable } : await readAll(config, clock)
  if ('failure' in read) return [read.failure, ...settings, tokenKeys]
  const { server, hasLogin } = read.facts
  return [
    describeDatabase(config, read),
    ...(hasLogin === undefined ? [] : [judge(checkAuthentication(config.host, hasLogin))]),
    ...settings,
    judge(checkTls(config.databaseUrl)),
    ...checkServer(server).map(judge),
    ...judgeFacts(read.facts, config),
    tokenKeys,
  ]
}

type Read = { readonly facts: Facts; readonly connectMs: number }

async function readAll(config: Examined, clock: Clock): Promise<Read | { readonly failure: Finding }> {
  const { databaseUrl, transactionDeadlineMs: limitMs } = config
  const limits = { connectMs: limitMs, statementMs: limitMs }
  const startMs = clock.monotonicMs()
  let client: pg.Client
  try {
    client = await connect({ databaseUrl, name: 'fleetline doctor', ...limits })
  } catch (error) {
    const cause = error instanceof Error ? error.cause : error
    return { failure: { state: 'red', name: 'database', ...connectFault(databaseUrl, cause) } }
  }
  const connectMs = clock.monotonicMs() - startMs
  try {
    return { facts: await readFacts(client, config, clock), connectMs }
  } catch (error) {
    return { failure: describeBreak(config, error) }
  } finally {
    closeNow(client)
  }
}

/** All in one transaction, so that a pooler in between uses one connection for it. */
async function readFacts(client: pg.Client, config: Examined, clock: Clock): Promise<Facts> {
  const query: Query = async (text, values) => (await client.query(text, values && [...values])).rows
  await query(`begin read only; set local statement_timeout = ${config.transactionDeadlineMs}`)
  const rights = await readRights(query)
  const readIf = async <T>(tables: readonly string[], read: () => Promise<T>): Promise<T | undefined> =>
    tables.every((table) => accessOf(rights, table) === 'readable') ? read() : undefined
  const hasLedger = accessOf(rights, 'migrations') !== 'absent'
  const countPods = () => readIf(['pods'], () => countLivePods(query, config.ttlMs))
  const livePods = accessOf(rights, 'pods') === 'absent' ? 0 : await countPods()
  const keys = await readIf(['api_keys', 'tenants'], () => readKeys(query))
  const issuers = (await readIf(['issuers'], () => countIssuers(query))) ?? 0
  return {
    rights,
    server: await readServer(query),
    standbys: await readStandbys(query),
    clock: await readClock(query, clock),
    connections: livePods === undefined ? undefined : { limits: await readLimits(query), livePods },
    schema: hasLedger ? await readIf(['migrations'], () => readSchema(query)) : { last: 0, podsFrom: 0 },
    hasLogin: keys ? keys.live + issuers > 0 : accessOf(rights, 'api_keys') === 'absent' ? false : undefined,
    keys,
    agents: await readIf(['agents'], () => countAgents(query)),
  }
}

function judgeFacts({ keys, agents, schema, connections, ...facts }: Facts, config: Examined): Finding[] {
  const rights = judgeRights(facts.rights)
  return [
    judgeStandbys(facts.standbys),
    ...(rights ? [rights] : []),
    judgeClock(facts.clock),
    ...(connections ? [judgeConnections(connections, config)] : []),
    ...(schema ? [judgeSchema(schema)] : []),
    ...(keys ? [judgeKeys(keys)] : []),
    ...(agents === undefined ? [] : [judgeSecretsKey(config, agents)]),
  ]
}

function judgeSchema(schema: SchemaVersion): Finding {
  const [name, code] = ['schema', codeNumber()]
  const fault = schemaFault(schema, code)
  if (!fault)
    return { state: 'ok', name, found: `the schema is at ${schema.last}, this release needs ${code}` }
  return { state: 'red', name, ...fault, ...(schema.last === 0 && { found: 'there is no schema yet' }) }
}

function describeDatabase({ databaseUrl }: Examined, { facts, connectMs }: Read): Finding {
  const times = `${connectMs.toFixed(0)} ms to connect, ${facts.clock.roundTripMs.toFixed(1)} ms for a round trip`
  return { state: 'ok', name: 'database', found: `PostgreSQL at ${placeOf(databaseUrl)} answers: ${times}` }
}

/** A URL may name files of certificates, which pg reads at once. The port may come from the environment. */
function describeUnusable({ databaseUrl }: Examined): Finding | undefined {
  try {
    newClient(databaseUrl)
    return undefined
  } catch (error) {
    return {
      state: 'red',
      name: 'database',
      found: reasonOf(error),
      remedy: 'Correct DATABASE_URL, the file that it names, or PGPORT',
    }
  }
}

function describeBreak({ databaseUrl }: Examined, error: unknown): Finding {
  return {
    state: 'red',
    name: 'database',
    found: `PostgreSQL at ${placeOf(databaseUrl)} accepts connections, but cannot be examined: ${reasonOf(error)}`,
    remedy: 'Look at the log of PostgreSQL, and run fleetline doctor again',
  }
}
