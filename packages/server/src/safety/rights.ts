// The rights that a pod's role needs on the schema, if it does not own it. `NEEDED` lists what the statements of the sources use;
// a test compares it with them.
import type { Query } from '../store/database.ts'
import type { Finding } from './finding.ts'

type Kind = 'table' | 'sequence' | 'function'
type DatabaseRight = { readonly kind: Kind; readonly name: string; readonly right: string }
export type RightsFacts = {
  /** Quoted for SQL. */
  readonly role: string
  readonly hasSchema: boolean
  readonly hasUsage: boolean
  /** Tables that exist. */
  readonly tables: readonly string[]
  /** Of objects that exist: an older schema may lack some. */
  readonly missing: readonly DatabaseRight[]
}

/** Rights on each table. Migrations and partitions need more, but run as the owner of the schema. */
export const TABLE_RIGHTS: Readonly<Record<string, string>> = {
  agents: 'select insert update delete',
  api_keys: 'select insert update delete',
  audit: 'select insert delete',
  chunks: 'select insert update delete',
  downstream_loads: 'select insert update delete',
  downstreams: 'select insert update delete',
  erased_messages: 'select insert delete',
  erased_sessions: 'select insert update delete',
  erasures: 'select insert update',
  issuers: 'select insert delete',
  leader: 'select update',
  members: 'select insert update delete',
  messages: 'select insert update delete',
  migrations: 'select',
  pods: 'select insert update delete',
  queues: 'select insert',
  retention: 'select insert update delete',
  retention_progress: 'select insert update',
  sessions: 'select insert update delete',
  shapes: 'select insert',
  summaries: 'select insert delete',
  task_history: 'select insert',
  tasks: 'select insert update delete',
  tenants: 'select insert update',
  tickets: 'select insert delete',
  token_cuts: 'select insert update delete',
  tracks: 'select insert update',
  turns: 'select insert update delete',
  usage: 'select insert update delete',
  usage_days: 'select insert update delete',
  usage_progress: 'select update',
}
/** By default PostgreSQL lets everybody execute new functions. A migration revokes this for the first two, so a role needs a
 *  grant. For the others it matters only if somebody has revoked the default. */
export const FUNCTIONS: readonly string[] = [
  'make_partitions',
  'drop_partitions',
  'entry',
  'fault',
  'track_of',
  'turn_track',
  'compact_track',
]
const NEEDED: readonly DatabaseRight[] = [
  ...Object.entries(TABLE_RIGHTS).flatMap(([name, rights]) =>
    rights.split(' ').map((right) => ({ kind: 'table' as const, name, right })),
  ),
  { kind: 'sequence', name: 'place', right: 'usage' },
  ...FUNCTIONS.map((name) => ({ kind: 'function' as const, name, right: 'execute' })),
]

// $1 kinds · $2 names · $3 rights. Reads only the catalog, so it works without any right. A `case` for each kind, because
// PostgreSQL may evaluate conditions in any order, and has_table_privilege fails for the id of a function.
const FACTS = `
  with wanted as (select * from unnest($1::text[], $2::text[], $3::text[]) w(kind, name, "right")),
  found as (
    select w.*, case w.kind
             when 'table' then has_table_privilege(c.oid, w."right")
             when 'sequence' then has_sequence_privilege(c.oid, w."right")
             else has_function_privilege(p.oid, w."right") end as "isGranted"
      from wanted w
      left join pg_class c on c.relnamespace = to_regnamespace('fleetline') and c.relname = w.name and w.kind <> 'function'
      left join pg_proc p on p.pronamespace = to_regnamespace('fleetline') and p.proname = w.name and w.kind = 'function')
  select quote_ident(current_user) as role, n.oid is not null as "hasSchema",
         coalesce(has_schema_privilege(n.oid, 'usage'), false) as "hasUsage",
         array(select distinct name from found where kind = 'table' and "isGranted" is not null) as tables,
         coalesce((select jsonb_agg(jsonb_build_object('kind', kind, 'name', name, 'right', "right"))
                     from found where not "isGranted"), '[]') as missing
    from (select to_regnamespace('fleetline')::oid as oid) n`

export async function readRights(query: Query): Promise<RightsFacts> {
  const columns = (['kind', 'name', 'right'] as const).map((column) => NEEDED.map((right) => right[column]))
  const [facts] = await query<RightsFacts>(FACTS, columns)
  return facts!
}

/** `hidden`: it exists, and the role may not read it. */
export function accessOf(facts: RightsFacts, table: string): 'absent' | 'hidden' | 'readable' {
  if (!facts.tables.includes(table)) return 'absent'
  const isMissing = facts.missing.some(({ name, right }) => name === table && right === 'select')
  return facts.hasUsage && !isMissing ? 'readable' : 'hidden'
}

/** Undefined if there is no schema yet. */
export function judgeRights({ role, hasSchema, hasUsage, missing }: RightsFacts): Finding | undefined {
  const name = 'rights'
  if (!hasSchema) return undefined
  if (hasUsage && missing.length === 0)
    return { state: 'ok', name, found: `the role ${role} has every right that a pod needs` }
  const lacks = [
    ...(hasUsage ? [] : ['usage on the schema']),
    ...missing.map(({ kind, name: object, right }) => `${right} on the ${kind} ${object}`),
  ]
  const grants = [
    ...(hasUsage ? [] : [`grant usage on schema fleetline to ${role}`]),
    ...grantsOf(missing, role),
  ]
  return {
    state: 'red',
    name,
    found: `the role ${role} lacks ${lacks.length} ${lacks.length === 1 ? 'right' : 'rights'} that a pod needs: ${shorten(lacks)}`,
    remedy: `As the owner of the schema: ${grants.join('; ')};`,
  }
}

/** One statement for the objects that lack the same rights. */
function grantsOf(missing: readonly DatabaseRight[], role: string): string[] {
  const byObject = Map.groupBy(missing, ({ kind, name }) => `${kind} fleetline.${name}`)
  const byRights = Map.groupBy(byObject, ([object, rights]) => {
    const [kind] = object.split(' ')
    return `${rights.map(({ right }) => right).join(', ')} on ${kind}`
  })
  return Array.from(byRights, ([what, objects]) => {
    const names = objects.map(([object]) => object.split(' ')[1])
    return `grant ${what} ${names.join(', ')} to ${role}`
  })
}

const SHOWN = 3
function shorten(lacks: readonly string[]): string {
  const rest = lacks.length - SHOWN
  return rest > 0 ? `${lacks.slice(0, SHOWN).join(', ')} and ${rest} more` : lacks.join(', ')
}
