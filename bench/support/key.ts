// An API key for a bench, so that the pod checks it, as in production.
import { POD } from '../../packages/server/src/identity/actor.ts'
import { createAudit } from '../../packages/server/src/identity/audit.ts'
import { createKeys } from '../../packages/server/src/identity/keys.ts'
import type { TenantScope } from '../../packages/server/src/identity/scopes.ts'
import { systemRandom } from '../../packages/server/src/lib/random.ts'
import { createMetrics } from '../../packages/server/src/telemetry/metrics.ts'
import { openDatabase } from '../../packages/server/test/support/store.ts'

/** One key sends more than a key usually may. */
export const UNLIMITED = { FLEETLINE_KEY_RATE: '1000000', FLEETLINE_TENANT_RATE: '1000000' }

/** Creates a key of the tenant `dev`. Leaves no connection open. */
export async function makeKey(url: string, scopes: readonly TenantScope[]): Promise<string> {
  let close: () => unknown = () => undefined
  const database = await openDatabase({ after: (closing) => void (close = closing) }, url)
  try {
    const audit = createAudit({ database, metrics: createMetrics() })
    const keys = createKeys({ database, random: systemRandom(), audit, onRevoked: () => undefined })
    return (await keys.create({ tenant: 'dev', name: 'bench', scopes }, POD)).key
  } finally {
    await close()
  }
}
