// Keeps a pod from starting that would not be secure. `allowInsecure` lets it start all the same; then every start logs what it
// allows.
import { flagOf, type Config } from '../config.ts'
import { Rejected } from '../errors.ts'
import type { Keys } from '../identity/keys.ts'
import type { Service } from '../lib/lifecycle.ts'
import { valueOf, type Transactions } from '../store/database.ts'
import { SETTINGS } from '../settings.ts'
import type { Log } from '../telemetry/log.ts'
import { checksOf, type SafetyCheck, type SafetyFacts } from './checks.ts'
import { readServer } from './server.ts'

type Deps = {
  readonly config: SafetyFacts['config'] & Pick<Config, 'allowInsecure'>
  readonly database: Transactions
  readonly keys: Pick<Keys, 'hasLogin'>
  readonly log: Log
}

/** The line in the log of a pod that is allowed to be insecure. */
export const MAY_BE_INSECURE = 'may be insecure'

export function createStartCheck(deps: Deps): Service {
  return { name: 'safety', start: () => refuseUnsafe(deps), stop: async () => undefined }
}

async function refuseUnsafe({ config, database, keys, log }: Deps): Promise<void> {
  const outcome = await database.transaction(readServer, { access: 'read' })
  const server = valueOf(outcome, 'The settings of PostgreSQL cannot be read')
  const { allowInsecure: allowed } = config
  const red = checksOf({ config, server, hasLogin: await keys.hasLogin() }).filter(({ isOk }) => !isOk)
  const refused = red.filter(({ name }) => !allowed.includes(name))
  if (refused.length > 0) throw new Rejected('invalid', refusalText(refused))
  if (allowed.length > 0)
    log.warn(MAY_BE_INSECURE, { data: { allowed, needed: red.map(({ name }) => name) } })
}

function refusalText(refused: readonly SafetyCheck[]): string {
  const reasons = refused.map(({ name, found, remedy }) => `- ${name}: ${found}. ${remedy}.`)
  const names = refused.map(({ name }) => name).join(',')
  return [
    'The pod does not start, because it would not be secure:',
    ...reasons,
    `To start it all the same: ${flagOf('allowInsecure')} ${names}, or ${SETTINGS.allowInsecure.env}=${names}`,
  ].join('\n')
}
