// Whether a commit can succeed on this server: it is a primary, and the standbys for which commits wait are connected.
import type { Query } from '../store/database.ts'
import type { Finding } from './finding.ts'

export type StandbyFacts = {
  readonly isStandby: boolean
  readonly isReadOnly: boolean
  readonly synchronousCommit: string
  /** The setting synchronous_standby_names. */
  readonly wanted: string
  /** The names of the standbys that are connected. */
  readonly connected: readonly string[]
}

// Only superusers and members of pg_read_all_stats see `sync_state`. Everybody sees the names, and PostgreSQL itself compares names.
const FACTS = `
  select pg_is_in_recovery() as "isStandby", current_setting('default_transaction_read_only')::bool as "isReadOnly",
         current_setting('synchronous_commit') as "synchronousCommit", current_setting('synchronous_standby_names') as wanted,
         array(select coalesce(application_name, '') from pg_stat_replication
                where coalesce(state, 'streaming') = 'streaming') as connected`

export async function readStandbys(query: Query): Promise<StandbyFacts> {
  const [facts] = await query<StandbyFacts>(FACTS)
  return facts!
}

export function judgeStandbys(facts: StandbyFacts): Finding {
  const name = 'standbys'
  if (facts.isStandby)
    return {
      state: 'red',
      name,
      found: 'the server is a standby, which takes no writes',
      remedy: 'Set DATABASE_URL to the primary, or to an address that follows it',
    }
  if (facts.isReadOnly)
    return {
      state: 'red',
      name,
      found: 'default_transaction_read_only is on, so the server takes no writes from this role',
      remedy: 'Set default_transaction_read_only to off, for the role, the database or the server',
    }
  return judgeQuorum(facts)
}

function judgeQuorum({ synchronousCommit, wanted, connected }: StandbyFacts): Finding {
  const name = 'standbys'
  if (wanted.trim() === '')
    return {
      state: 'ok',
      name,
      found:
        'synchronous_standby_names is empty, so commits wait for no standby. If its disk is lost, every commit is lost that no standby or backup has yet',
    }
  const { count, names } = parseStandbyNames(wanted)
  const has = connected.filter((one) => names.includes('*') || names.includes(one.toLowerCase())).length
  const found = `synchronous_standby_names is ${wanted}, and ${has} of these standbys ${has === 1 ? 'is' : 'are'} connected`
  if (has >= count) return { state: 'ok', name, found }
  const remedy = 'Start the standbys, or correct synchronous_standby_names'
  return ['local', 'off'].includes(synchronousCommit)
    ? {
        state: 'warn',
        name,
        found: `${found}. Commits do not wait for them: synchronous_commit is ${synchronousCommit}`,
        remedy,
      }
    : { state: 'red', name, found: `${found}. Every commit waits`, remedy }
}

/** Parses `ANY 2 (a, b)`, `FIRST 1 (a)`, `1 (a)` and `a, b`; names in lower case, because PostgreSQL ignores the case. */
export function parseStandbyNames(text: string): {
  readonly count: number
  readonly names: readonly string[]
} {
  const [, count = '1', list = text] = /^\s*(?:(?:any|first)\s+)?(\d+)\s*\((.*)\)\s*$/i.exec(text) ?? []
  const names = list.match(/"(?:[^"]|"")*"|[^\s,"]+/g) ?? []
  const unquoted = names.map((one) =>
    one
      .replace(/^"(.*)"$/, '$1')
      .replaceAll('""', '"')
      .toLowerCase(),
  )
  return { count: Number(count), names: unquoted }
}
