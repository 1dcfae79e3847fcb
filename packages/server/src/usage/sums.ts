// Sums days that are over, so that a question about a year reads a row per day, agent and model instead of one per attempt. A day is
// summed a whole day after its end. Few attempts write later; a late row makes the leader sum that day and all later days again. Tenants are summed in steps; a step that is repeated writes the same numbers again.
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import { IS_LEADER, type Term } from '../store/leader.ts'

const STEP = 50 // tenants
/** Of each tenant and day. Agents choose the names of their models, so the smallest beyond these are summed together. */
const MOST_GROUPS = 500
const KEPT_DAYS = 1_100

/** Columns of rows of `a`: what `COUNTED` marks, summed. */
export const SUMS = `
         count(*) filter (where a.is_turn)::int as turns, count(*) filter (where a.is_attempt)::int as attempts,
         count(*) filter (where a.is_attempt and a.is_empty)::int as unreported,
         coalesce(sum(a.input_tokens), 0)::bigint as input_tokens, coalesce(sum(a.output_tokens), 0)::bigint as output_tokens,
         coalesce(sum(a.cache_read_tokens), 0)::bigint as cache_read_tokens,
         coalesce(sum(a.cache_write_tokens), 0)::bigint as cache_write_tokens,
         coalesce(sum(a.reasoning_tokens), 0)::bigint as reasoning_tokens`

/** Marks one row of each turn and one of each attempt, so that they are counted once: that of the first attempt, with numbers if there
 *  are any, of the first model by name. */
export const counted = (where: string): string => `
  select u.*, row_number() over (partition by u.tenant, u.day, u.turn order by u.is_empty, u.attempt, u.model) = 1 as is_turn,
         row_number() over (partition by u.tenant, u.day, u.turn, u.attempt order by u.is_empty, u.model) = 1 as is_attempt
    from (select *, coalesce(input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens) is null as is_empty
            from fleetline.usage) u
   where ${where}`

// Waits for the leader's step, and keeps the next one waiting, so that the step reads the rows of this transaction.
const SUM_AGAIN = `
  update fleetline.usage_progress
     set last_tenant = case when day < $1::date then last_tenant else 0 end, day = least(day, $1::date)`

// The next tenants of the first day that is not summed yet. Without a tenant, the day is done.
const NEXT = `
  select p.day::text as day, array(select t.id from fleetline.tenants t where t.id > p.last_tenant order by t.id limit ${STEP}) as tenants
    from fleetline.usage_progress p
   where p.day < (now() at time zone 'UTC')::date - 1 and ${IS_LEADER}
     for update of p`
// Deletes sums whose model was replaced, or is grouped under '' now. A tenant without rows keeps its sums: its partition may have been dropped.
const SUM = `
  with ranked as (
    select a.tenant, a.agent, a.model, ${SUMS},
           row_number() over (partition by a.tenant order by sum(coalesce(a.input_tokens, 0)::bigint + coalesce(a.output_tokens, 0)) desc nulls last, a.agent, a.model) as place
      from (${counted('u.tenant = any ($1::int[]) and u.day = $2::date')}) a
     group by a.tenant, a.agent, a.model),
  grouped as (
    select tenant, case when place > ${MOST_GROUPS} then '' else agent end as agent, case when place > ${MOST_GROUPS} then '' else model end as model,
           turns, attempts, unreported, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens
      from ranked),
  gone as (
    delete from fleetline.usage_days d
     where d.tenant in (select tenant from grouped) and d.day = $2::date
       and not exists (select from grouped g where g.tenant = d.tenant and g.agent = d.agent and g.model = d.model))
  insert into fleetline.usage_days
    (tenant, day, agent, model, turns, attempts, unreported, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens)
  select tenant, $2::date, agent, model, sum(turns), sum(attempts), sum(unreported), sum(input_tokens), sum(output_tokens),
         sum(cache_read_tokens), sum(cache_write_tokens), sum(reasoning_tokens)
    from grouped group by tenant, agent, model
  on conflict (tenant, day, agent, model) do update
     set turns = excluded.turns, attempts = excluded.attempts, unreported = excluded.unreported,
         input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
         cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
         reasoning_tokens = excluded.reasoning_tokens`
const FORGET = `delete from fleetline.usage_days where tenant = any ($1::int[]) and day < $2::date - ${KEPT_DAYS}`
const ADVANCE = `
  update fleetline.usage_progress p
     set last_tenant = case when cardinality($1::int[]) < ${STEP} then 0 else $1[cardinality($1)] end,
         day = case when cardinality($1::int[]) < ${STEP} then p.day + 1 else p.day end`

/** Days from this one on are summed once more. Call it after rows of this day were written, in the same transaction. It waits for the
 *  step of the leader, so only rows that come late may need it: those of today and yesterday are not summed yet. */
export async function sumAgainFrom(query: Query, day: string): Promise<void> {
  await query(SUM_AGAIN, [day])
}

/** One step. Returns false if there is nothing to sum. */
export async function sumNextTenants(database: Transactions, { term, pod }: Term): Promise<boolean> {
  const outcome = await database.transaction(async (query) => {
    const [next] = await query<{ readonly day: string; readonly tenants: readonly number[] }>(NEXT, [
      term,
      pod,
    ])
    if (!next) return false
    const { day, tenants } = next
    if (tenants.length > 0) {
      await query(SUM, [tenants, day])
      await query(FORGET, [tenants, day])
    }
    await query(ADVANCE, [tenants])
    return true
  })
  return valueOf(outcome, 'The usage of a day could not be summed')
}
