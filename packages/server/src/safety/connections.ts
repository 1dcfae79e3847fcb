// Whether one more pod would get the connections that it needs: from the server, and under the limits of its role and database.
import type { Config } from '../config.ts'
import type { Query } from '../store/database.ts'
import { SETTINGS } from '../settings.ts'
import type { Finding } from './finding.ts'

export type ConnectionLimit = {
  readonly scope: 'server' | 'role' | 'database'
  /** The name of the role or database, quoted for SQL; empty for the server. */
  readonly name: string
  readonly size: number
  readonly inUse: number
  /** Those of `inUse` that pods of this database have opened. */
  readonly ofPods: number
}
export type ConnectionFacts = { readonly limits: readonly ConnectionLimit[]; readonly livePods: number }

/** What a pod opens beside its pool: it listens for hints, sends them, beats and, after a restart of the server, tests it. */
const BESIDE_POOL = 4
const WARN_SHARE = 0.8

// Without pg_read_all_stats a role sees neither the state nor the kind of foreign connections. It sees their role, database and
// name; connections of clients have both a role and a database. reserved_connections came with PostgreSQL 16. The limits of
// roles and databases do not apply to superusers.
const LIMITS = `
  with own as (
    select r.oid as role, r.rolname, r.rolconnlimit, r.rolsuper, d.oid as database, d.datname, d.datconnlimit
      from pg_roles r, pg_database d where r.rolname = session_user and d.datname = current_database()),
  limits as (
    select 'server' as scope, '' as name, current_setting('max_connections')::int
           - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0) as size
    union all select 'role', quote_ident(rolname), rolconnlimit from own where rolconnlimit >= 0 and not rolsuper
    union all select 'database', quote_ident(datname), datconnlimit from own where datconnlimit >= 0 and not rolsuper)
  select l.scope, l.name, l.size, count(a.pid)::int as "inUse",
         (count(a.pid) filter (where a.datid = own.database and a.application_name ~ '^fleetline( |$)'))::int as "ofPods"
    from own cross join limits l left join pg_stat_activity a
      on a.usesysid is not null and a.datid is not null and a.leader_pid is null and a.pid <> pg_backend_pid()
         and case l.scope when 'role' then a.usesysid = own.role when 'database' then a.datid = own.database else true end
   group by l.scope, l.name, l.size`

// Pods that were all killed at once leave rows that nobody has marked as dead, so the age of the beat counts.
const LIVE_PODS = `
  select count(*)::int as live from fleetline.pods
   where state <> 'dead' and beat_at > clock_timestamp() - make_interval(secs => $1 / 1000.0)`

export async function readLimits(query: Query): Promise<readonly ConnectionLimit[]> {
  return query<ConnectionLimit>(LIMITS)
}

export async function countLivePods(query: Query, ttlMs: number): Promise<number> {
  const [row] = await query<{ live: number }>(LIVE_PODS, [ttlMs])
  return row!.live
}

/** Assumes that the other pods have the same pool size. */
export function judgeConnections(
  { limits, livePods }: ConnectionFacts,
  { poolSize }: Pick<Config, 'poolSize'>,
): Finding {
  const perPod = poolSize + BESIDE_POOL
  const measured = limits.map((limit) => {
    const others = limit.inUse - limit.ofPods
    return { ...limit, others, needed: Math.max(limit.ofPods, livePods * perPod) + perPod + others }
  })
  const tightest = measured.toSorted((one, other) => other.needed / other.size - one.needed / one.size)[0]!
  const { scope, name, needed, size, others } = tightest
  const owner = scope === 'server' ? 'The server' : `The ${scope} ${name}`
  const found = `live pods: ${livePods}. With one more they need ${needed - others} connections (${perPod} each), and other programs use ${others}. ${owner} allows ${size}`
  if (needed <= size * WARN_SHARE) return { state: 'ok', name: 'connections', found }
  const remedy = `Lower ${SETTINGS.poolSize.env} on every pod, or ${raise(tightest)}`
  return { state: needed > size ? 'red' : 'warn', name: 'connections', found, remedy }
}

function raise({ scope, name, needed }: ConnectionLimit & { readonly needed: number }): string {
  if (scope === 'server') return 'raise max_connections in postgresql.conf and restart PostgreSQL'
  return `raise the limit: alter ${scope} ${name} connection limit ${Math.ceil(needed / WARN_SHARE)};`
}
