// A pod that lets nobody in without a key, one request for each kind of change that the audit log records, and what the log has
// gained.
import type { TestContext } from 'node:test'
import { AUDIT } from '../../src/cli/audit.ts'
import type { AuditEntry } from '../../src/identity/audit.ts'
import { valueOf, type Query } from '../../src/store/database.ts'
import { databaseFor } from './database.ts'
import { call } from './http.ts'
import { CLOSED, podOn } from './pod.ts'
import { AGENT } from './route-fields.ts'
import { openDatabase } from './store.ts'
import { typing } from './terminal.ts'
import { TOKEN_KEYS } from './tokens.ts'

const AUDITED = {
  ...CLOSED,
  secretsKey: Buffer.alloc(32, 7).toString('base64'),
  agentHosts: '127.0.0.1',
}
const OTHER_SECRET = `whsec_${Buffer.alloc(24, 9).toString('base64')}`
const SECRETS = [AGENT.secret, OTHER_SECRET].flatMap((secret) => [secret, secret.slice(6)])
const ISSUER = { tenant: 'dev', issuer: 'https://login.test/', audience: 'chat' }

type Change = {
  readonly action: string
  readonly by: string
  readonly ask: () => ReturnType<typeof call>
  /** By default, the id in the answer. */
  readonly target?: string
  /** The status of the same request again, if it changes nothing then. */
  readonly repeat?: number
}

/** Tables whose changes are recorded. */
export const CHANGED = ['tenants', 'api_keys', 'issuers', 'token_cuts', 'agents']

/** A pod that lets nobody in without a key, something to change, and one request for each kind of change. */
export async function auditedPod(t: TestContext) {
  const url = await databaseFor(t)
  const { pod, gateway, admin } = await podOn(t, url, AUDITED)
  const database = await openDatabase(t, url)
  const run = async <T>(work: (query: Query) => Promise<T>) =>
    valueOf(await database.transaction(work), 'not run')
  const operator = await pod.keys.create({ name: 'operator', scopes: ['admin:read', 'admin:write'] })
  const app = await pod.keys.create({
    tenant: 'dev',
    name: 'app',
    scopes: ['agents:read', 'agents:write', 'tokens:mint'],
  })
  const old = await pod.keys.create({ tenant: 'dev', name: 'old' })
  await pod.issuers.add({ ...ISSUER, name: 'old', audience: 'old' })
  await pod.addAgent({ ...AGENT, name: 'old' })
  const change =
    (key: typeof app, at: string) =>
    (action: string, method: string, path: string, more: Partial<Change> & { body?: object }) => ({
      action,
      by: `key ${key.entry.id}`,
      ask: () => call(method, `${at}/v1${path}`, more.body, key.key),
      ...more,
    })
  const [byOperator, byApp] = [change(operator, admin), change(app, gateway)]
  const changes: readonly Change[] = [
    byOperator('tenant.create', 'POST', '/tenants', { body: { name: 'acme' }, target: 'acme', repeat: 200 }),
    byOperator('key.create', 'POST', '/keys', { body: { tenant: 'dev', name: 'made' } }),
    byOperator('key.revoke', 'POST', `/keys/${old.entry.id}/revoke`, { repeat: 200 }),
    byOperator('issuer.add', 'POST', '/issuers', {
      body: { ...ISSUER, name: 'own' },
      target: 'own',
      repeat: 200,
    }),
    byOperator('issuer.remove', 'DELETE', '/issuers/old', { target: 'old', repeat: 404 }),
    byApp('agent.add', 'POST', '/agents', { body: AGENT, target: 'own', repeat: 200 }),
    byApp('tenant.change', 'PATCH', '/tenant', { body: { defaultAgent: 'old' }, target: 'old', repeat: 200 }),
    byApp('agent.change', 'PATCH', '/agents/old', {
      body: { url: AGENT.url, secret: OTHER_SECRET, window: { messages: 7 } },
      target: 'old',
      repeat: 200,
    }),
    byApp('agent.remove', 'DELETE', '/agents/old', { target: 'old', repeat: 404 }),
    byApp('token.mint', 'POST', '/tokens', { body: { user: 'ada' }, target: 'ada' }),
    byApp('token.revoke', 'POST', '/tokens/revoke', { body: { user: 'ada' }, target: 'ada' }),
  ]
  const list = async (flags?: { readonly databaseUrl: string }) => {
    if (!flags) return pod.audit.list()
    const { out } = await typing(AUDIT, 'audit')({ flags, json: true }, 'ls')
    return out
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as AuditEntry)
  }
  let seen = (await list())[0]!.id
  return {
    pod,
    url,
    gateway,
    admin,
    operator: operator.key,
    keys: { app: app.key },
    changes,
    run,
    secrets: [operator.key, app.key, old.key, ...SECRETS, TOKEN_KEYS.slice(5)],
    /** What the log has gained since the last call, newest first. */
    newRows: async (flags?: { readonly databaseUrl: string }) => {
      const rows = (await list(flags)).filter(({ id }) => id > seen)
      seen = rows[0]?.id ?? seen
      return rows.map(withoutTime)
    },
    rowsAsText: async () =>
      (await run((query) => query<{ row: string }>('select a::text as row from fleetline.audit a')))
        .map(({ row }) => row)
        .join('\n'),
    /** The rows of the tables whose changes are recorded. */
    storedRows: async () => {
      const rows: unknown[] = []
      for (const table of CHANGED)
        rows.push(await run((query) => query(`select t::text from fleetline.${table} t order by 1`)))
      return rows
    },
  }
}

function withoutTime({ id, at, ...row }: AuditEntry): Omit<AuditEntry, 'id' | 'at'> {
  if (id < 1 || !(Date.parse(at) > 0)) throw new Error('A row has an id and a time')
  return row
}
