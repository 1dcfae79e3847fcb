// Tenants, keys, issuers and the audit log for a command: in the database or, if --operator-url names a pod, over its port for
// operators. Both ways reject the same input with the same words.
import type { z } from 'zod'
import { auditSchema } from '../../admin/audit-schemas.ts'
import {
  createdKeySchema,
  keySchema,
  keysSchema,
  tenantSchema,
  tenantsSchema,
} from '../../admin/key-schemas.ts'
import { issuerSchema, issuersSchema, removedIssuerSchema } from '../../admin/issuer-schemas.ts'
import { flagOf, loadConfig, settingIn, type Flags } from '../../config.ts'
import { Rejected, Retry } from '../../errors.ts'
import { COMMAND } from '../../identity/actor.ts'
import { createAudit, type AuditEntry, type AuditFilter } from '../../identity/audit.ts'
import { KEYS_TOPIC } from '../../identity/callers.ts'
import { createIssuers, type IssuerEntry, type NewIssuer } from '../../identity/issuers.ts'
import { createKeys, type KeyEntry, type KeyFilter, type NewKey } from '../../identity/keys.ts'
import { operatorFor } from '../../identity/operator.ts'
import { SETTINGS } from '../../settings.ts'
import { createTenants, type Tenant } from '../../identity/tenants.ts'
import { systemClock } from '../../lib/clock.ts'
import { pick } from '../../lib/pick.ts'
import { systemRandom } from '../../lib/random.ts'
import { createDatabase } from '../../store/database.ts'
import { createSender } from '../../store/hint-sender.ts'
import { refuseOtherSchema } from '../../store/migrate.ts'
import { createMetrics } from '../../telemetry/metrics.ts'
import { apiOf, queryOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { warnOfOpenConnection } from '../tls-warning.ts'

export type Directory = {
  createTenant(name: string): Promise<Tenant>
  /** A page, after this name. */
  listTenants(after: string | undefined): Promise<readonly Tenant[]>
  createKey(wanted: NewKey): Promise<z.infer<typeof createdKeySchema>>
  listKeys(of: KeyFilter): Promise<readonly KeyEntry[]>
  revokeKey(id: string): Promise<KeyEntry>
  addIssuer(wanted: NewIssuer): Promise<IssuerEntry>
  listIssuers(): Promise<readonly IssuerEntry[]>
  removeIssuer(name: string): Promise<{ readonly name: string }>
  listAudit(filter: AuditFilter): Promise<readonly AuditEntry[]>
}

type Calling = Pick<CommandCall, 'flags' | 'output'>

/** Closes what it has opened when the work is done. */
export async function withDirectory<T>(
  { flags, output }: Calling,
  work: (directory: Directory) => Promise<T>,
): Promise<T> {
  if (isOverPort(flags)) return work(overPort({ flags, output }))
  const config = loadConfig({ flags })
  warnOfOpenConnection(config.databaseUrl, output)
  const [clock, metrics] = [systemClock(), createMetrics()]
  const limits = pick(config, 'databaseUrl', 'transactionDeadlineMs', 'lockTimeoutMs', 'idleTransactionMs')
  const database = createDatabase({ ...limits, poolSize: 1, stopMs: config.stopMs, clock, metrics })
  const hints = createSender({ ...limits, metrics, echoes: { next: () => 'command', sent: () => undefined } })
  const onChange = () => hints.send(KEYS_TOPIC)
  const all = { database, clock, random: systemRandom(), audit: createAudit({ database, metrics }) }
  const { tenants, keys, issuers, audit } = operatorFor(COMMAND, {
    tenants: createTenants(all),
    keys: createKeys({ ...all, onRevoked: onChange }),
    issuers: createIssuers({ ...all, onChange }),
    audit: all.audit,
  })
  try {
    await database.start().catch(orAskPod(flags))
    await refuseOtherSchema(database).catch(orAskPod(flags))
    return await work({
      createTenant: async (name) => {
        const { isNew: _, ...tenant } = await tenants.create(name)
        return tenant
      },
      listTenants: (after) => tenants.list(after),
      createKey: async (wanted) => {
        const { key, entry } = await keys.create(wanted)
        return { key, ...entry, scopes: [...entry.scopes] }
      },
      listKeys: (of) => keys.list(of),
      revokeKey: async (id) => {
        const revoked = await keys.revoke(id)
        if (!revoked)
          throw new Rejected('not_found', `There is no key ${id}: list them with fleetline keys ls`)
        return revoked
      },
      addIssuer: async (wanted) => {
        const { isNew: _, ...issuer } = await issuers.add(wanted)
        return issuer
      },
      listIssuers: () => issuers.list(),
      removeIssuer: async (name) => {
        if (!(await issuers.remove(name)))
          throw new Rejected('not_found', `There is no issuer ${name}: list them with fleetline issuers ls`)
        return { name }
      },
      listAudit: (filter) => audit.list(filter),
    })
  } finally {
    await hints.stop()
    await database.stop()
  }
}

/** A flag beats a variable. The database is the default. */
function isOverPort(flags: Flags): boolean {
  const [port, database] = [settingIn(flags, 'operatorUrl').source, settingIn(flags, 'databaseUrl').source]
  if (port === 'flag' && database === 'flag')
    throw new Rejected('invalid', `Give either ${flagOf('operatorUrl')} or ${flagOf('databaseUrl')}`)
  return port === 'flag' || (port !== 'default' && database !== 'flag')
}

/** Somebody who has set no database may have a fleet of `fleetline dev`, which has its own. */
function orAskPod(flags: Flags): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof Retry) || settingIn(flags, 'databaseUrl').source !== 'default') throw error
    const url = `${flagOf('operatorUrl')} ${SETTINGS.operatorUrl.fallback}`
    throw new Retry(error.code, `${error.message}, or ask a pod with ${url}`, { cause: error.cause })
  }
}

function overPort(calling: Calling): Directory {
  const { ask } = apiOf(calling, 'operatorUrl')
  return {
    createTenant: (name) => ask({ method: 'POST', path: '/tenants', body: { name }, answer: tenantSchema }),
    listTenants: async (after) => {
      const path = `/tenants${queryOf({ after }, ['after'])}`
      return (await ask({ method: 'GET', path, answer: tenantsSchema })).tenants
    },
    createKey: (body) => ask({ method: 'POST', path: '/keys', body, answer: createdKeySchema }),
    listKeys: async ({ tenant, operator }) => {
      const path = `/keys${queryOf({ tenant, operator }, ['tenant', 'operator'])}`
      return (await ask({ method: 'GET', path, answer: keysSchema })).keys
    },
    revokeKey: (id) =>
      ask({ method: 'POST', path: `/keys/${encodeURIComponent(id)}/revoke`, answer: keySchema }),
    addIssuer: (body) => ask({ method: 'POST', path: '/issuers', body, answer: issuerSchema }),
    listIssuers: async () => (await ask({ method: 'GET', path: '/issuers', answer: issuersSchema })).issuers,
    removeIssuer: (name) =>
      ask({ method: 'DELETE', path: `/issuers/${encodeURIComponent(name)}`, answer: removedIssuerSchema }),
    listAudit: async (filter) => {
      const path = `/audit${queryOf({ ...filter }, ['tenant', 'actor', 'action', 'before', 'limit'])}`
      return (await ask({ method: 'GET', path, answer: auditSchema })).entries
    },
  }
}
