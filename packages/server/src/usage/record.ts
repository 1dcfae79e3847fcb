// Writes what the attempts of turns have used. Guarantees:
//   E9  an attempt that called its agent has rows with what the agent had reported until the attempt ended, or one row without numbers
//       if it had reported nothing; repeated writes count once
//
//   the attempt                                      is written by                                          as
//   ended its turn, or was current when the turn     the transaction that ended the turn                    done, failed, stopped
//   was stopped
//   failed, and another one follows                  its pod, before it gives the claim up                  failed
//   was handed back                                  its pod, before it gives the claim up                  returned
//   was overtaken                                    its pod; a stop has written `stopped` before            fenced
//   had a pod that died                              the next attempt, or the end of the turn, from the     lost
//                                                    chunks that reached the table
//
// Several of them may write the same attempt. `stopped` and `lost` are read from the chunks; only the attempt's own pod knows all that its
// agent has reported:
//
//   there are rows         is written by      then
//   from chunks            its own pod        the new rows take their place; of a model that both name, the highest number of each kind
//                                             stays. `stopped` stays, `lost` becomes the new outcome
//   from chunks            from chunks        the highest number of each kind stays, and further models are added
//   from its own pod       from chunks        nothing changes
//   from its own pod       its own pod        as from chunks and its own pod; the first outcome stays
import type { AttemptTokens } from '@fleetline/protocol'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import { withPartitions } from '../task/partitions.ts'
import { sumAgainFrom } from './sums.ts'
import { highestOf, TOKEN_KINDS, type ModelTokens } from './tokens.ts'

export type UsageOutcome = AttemptTokens['outcome']
export type AttemptUsage = {
  readonly attempt: number
  readonly outcome: UsageOutcome
  /** Empty: the agent reported nothing. */
  readonly models: readonly ModelTokens[]
}
/** An attempt and its turn. */
export type UsedAttempt = AttemptUsage & { readonly tenant: number; readonly turn: string }

// The lock makes the writers of one attempt follow each other, so that each sees the rows of the one before.
const LOCK = 'select from fleetline.turns where tenant = $1 and id = $2 for update'

// The turn's row says the rest. A row without numbers is left out if the attempt has others. Rows of a past month without a partition are left
// out, so that the turn can end. If the partition of this month is missing, the statement fails and the caller makes it; the month is that of
// an hour ago, as in `make_partitions`. Returns the first day that must be summed again; it is an hour ahead, in case the transaction crosses
// midnight.
const RECORD = `
  with given as materialized (
    select t.tenant, d.day, t.id as turn, g.attempt, g.model, t.session, t.agent,
           case when b.outcome is null or b.outcome = 'lost' then g.outcome else b.outcome end as outcome,
           g.outcome not in ('lost', 'stopped') as is_own, g.input, g.output, g.cache_read, g.cache_write, g.reasoning
      from unnest($1::int[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::int[], $7::int[], $8::int[], $9::int[], $10::int[])
           g(tenant, turn, attempt, outcome, model, input, output, cache_read, cache_write, reasoning)
      join fleetline.turns t on t.tenant = g.tenant and t.id = g.turn
     cross join lateral (select (t.started_at at time zone 'UTC')::date as day) d
      left join lateral (
        select u.outcome from fleetline.usage u
         where u.tenant = t.tenant and u.day = d.day and u.turn = t.id and u.attempt = g.attempt limit 1) b on true
     where (b.outcome is null
            or (g.outcome not in ('lost', 'stopped') or b.outcome in ('lost', 'stopped'))
               and coalesce(g.input, g.output, g.cache_read, g.cache_write, g.reasoning) is not null)
       and (d.day >= date_trunc('month', (now() - interval '1 hour') at time zone 'UTC')
            or to_regclass('fleetline.usage_' || to_char(d.day, 'YYYYMM')) is not null)),
  replaced as (
    delete from fleetline.usage u using given g
     where g.is_own and u.tenant = g.tenant and u.day = g.day and u.turn = g.turn and u.attempt = g.attempt
       and not exists (
         select from given n
          where n.tenant = u.tenant and n.turn = u.turn and n.attempt = u.attempt and n.model = u.model)),
  written as (
    insert into fleetline.usage
      (tenant, day, turn, attempt, model, session, agent, outcome,
       input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens)
    select tenant, day, turn, attempt, model, session, agent, outcome, input, output, cache_read, cache_write, reasoning from given
    on conflict (tenant, day, turn, attempt, model) do update
       set outcome = excluded.outcome,
           input_tokens = greatest(usage.input_tokens, excluded.input_tokens),
           output_tokens = greatest(usage.output_tokens, excluded.output_tokens),
           cache_read_tokens = greatest(usage.cache_read_tokens, excluded.cache_read_tokens),
           cache_write_tokens = greatest(usage.cache_write_tokens, excluded.cache_write_tokens),
           reasoning_tokens = greatest(usage.reasoning_tokens, excluded.reasoning_tokens)
    returning day)
  select min(day)::text as late from written where day < ((now() + interval '1 hour') at time zone 'UTC')::date - 1`

const NOTHING: ModelTokens = {
  model: '',
  inputTokens: null,
  outputTokens: null,
  cacheReadTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
}

/** In the transaction of the caller, which runs in `withPartitions` and has locked the rows of these turns. */
export async function recordUsage(query: Query, used: readonly UsedAttempt[]): Promise<void> {
  const rows = rowsOf(used)
  if (rows.length === 0) return
  const columns = columnsOf(rows, 'tenant', 'turn', 'attempt', 'outcome', 'model', ...TOKEN_KINDS)
  const [{ late } = { late: null }] = await query<{ readonly late: string | null }>(RECORD, columns)
  if (late !== null) await sumAgainFrom(query, late)
}

type Row = Omit<UsedAttempt, 'models'> & ModelTokens

/** One row for each key: PostgreSQL rejects a statement that writes a row twice. */
function rowsOf(used: readonly UsedAttempt[]): readonly Row[] {
  const rows = new Map<string, Row>()
  for (const { models, ...attempt } of used)
    for (const model of models.length > 0 ? models : [NOTHING]) {
      const row = { ...attempt, ...model }
      const key = [row.tenant, row.turn, row.attempt, row.model].join(' ')
      const before = rows.get(key)
      rows.set(key, before ? { ...before, ...highestOf(before, row) } : row)
    }
  return [...rows.values()]
}

export type UsageRecorder = {
  /** May be repeated. */
  readonly record: (used: UsedAttempt) => Promise<void>
}
export function createUsageRecorder({ database }: { readonly database: Transactions }): UsageRecorder {
  return {
    record: (used) =>
      withPartitions(database, async () => {
        const outcome = await database.transaction(async (query) => {
          await query(LOCK, [used.tenant, used.turn])
          await recordUsage(query, [used])
        })
        valueOf(outcome, 'What an attempt has used could not be written')
      }),
  }
}
