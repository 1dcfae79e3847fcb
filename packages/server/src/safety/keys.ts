// API keys that somebody should look at, and the keys of the settings.
import type { Config } from '../config.ts'
import type { TokenKey } from '../lib/setting-values.ts'
import { SETTINGS } from '../settings.ts'
import type { Query } from '../store/database.ts'
import type { Finding } from './finding.ts'

export type KeyFacts = {
  readonly live: number
  /** Names of which every key expires soon. */
  readonly expiring: readonly string[]
  /** Names that have had more than one live key for long: their rotation has not ended. */
  readonly doubled: readonly string[]
}

const EXPIRING_DAYS = 14
const DOUBLED_DAYS = 7
const SHOWN = 10 // a fleet may have thousands of tenants

// An old key that expires is no problem if its successor lives on. Keys of operators have no tenant.
const LIVE = `
  with named as (
    select k.name || ' of ' || coalesce('tenant ' || t.name, 'operators') as name, count(*)::int as live,
           max(k.created_at) < now() - interval '${DOUBLED_DAYS} days' as "isOld",
           max(k.expires_at) < now() + interval '${EXPIRING_DAYS} days' as "isExpiring"
      from fleetline.api_keys k left join fleetline.tenants t on t.id = k.tenant
     where k.revoked_at is null and k.expires_at > now() group by 1)
  select (select coalesce(sum(live), 0)::int from named) as live,
         array(select name from named where "isExpiring" order by 1 limit ${SHOWN + 1}) as expiring,
         array(select name from named where live > 1 and "isOld" order by 1 limit ${SHOWN + 1}) as doubled`

// Agents behind URLs. The table belongs to the room `agent`, which is of a higher rank; this only counts its rows.
const AGENTS = 'select count(*)::int as agents from fleetline.agents'

const ISSUERS = 'select count(*)::int as issuers from fleetline.issuers'

export async function readKeys(query: Query): Promise<KeyFacts> {
  const [facts] = await query<KeyFacts>(LIVE)
  return facts!
}

export async function countAgents(query: Query): Promise<number> {
  const [row] = await query<{ agents: number }>(AGENTS)
  return row!.agents
}

export async function countIssuers(query: Query): Promise<number> {
  const [row] = await query<{ issuers: number }>(ISSUERS)
  return row!.issuers
}

export function judgeKeys({ live, expiring, doubled }: KeyFacts): Finding {
  const name = 'keys'
  if (live === 0)
    return {
      state: 'warn',
      name,
      found:
        'there is no live API key, so pods reject every program, except local ones if authentication is allowed',
      remedy: 'Create one: fleetline tenants create NAME, then fleetline keys create backend --tenant NAME',
    }
  const found = [live === 1 ? 'there is 1 live API key' : `there are ${live} live API keys`]
  const remedy: string[] = []
  if (expiring.length > 0) {
    found.push(`these names have no key that lives longer than ${EXPIRING_DAYS} days: ${listNames(expiring)}`)
    remedy.push('Create a successor with fleetline keys create, and give it to whoever uses the old key')
  }
  if (doubled.length > 0) {
    found.push(
      `these names have had more than one live key for over ${DOUBLED_DAYS} days: ${listNames(doubled)}`,
    )
    remedy.push('Find the old key with fleetline keys ls, and revoke it with fleetline keys revoke ID')
  }
  if (remedy.length === 0) return { state: 'ok', name, found: found[0]! }
  return { state: 'warn', name, found: found.join('; '), remedy: remedy.join('. ') }
}

export function judgeTokenKeys(tokenKeys: readonly TokenKey[]): Finding {
  const [first] = tokenKeys
  const found = first
    ? `tokens of users are signed with the key ${first.id}; ${tokenKeys.length} accepted`
    : `${SETTINGS.tokenKeys.env} is empty, so this pod mints no tokens for users`
  return { state: 'ok', name: 'token-keys', found }
}

export function judgeSecretsKey({ secretsKey }: Pick<Config, 'secretsKey'>, agents: number): Finding {
  const [name, env] = ['secrets-key', SETTINGS.secretsKey.env]
  const known = `agents behind URLs: ${agents}`
  if (secretsKey) return { state: 'ok', name, found: `${env} is set; ${known}` }
  if (agents === 0) return { state: 'ok', name, found: `${env} is empty, and no agent needs it` }
  return {
    state: 'red',
    name,
    found: `${env} is empty, so this pod cannot call its agents (${known})`,
    remedy: `Set ${env} to the key with which the agents were added, the same on every pod`,
  }
}

function listNames(names: readonly string[]): string {
  return names.length > SHOWN ? `${names.slice(0, SHOWN).join(', ')} and others` : names.join(', ')
}
