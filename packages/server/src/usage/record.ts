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
// Several of them may write the same attempt: the highest number of each kind stays, and the outcome that was written first.
import type { AttemptTokens } from '@fleetline/protocol'
import { columnsOf } from '../store/columns.ts'
import { valueOf, type Query, type Transactions } from '../store/database.ts'
import { withPartitions } from '../task/partitions.ts'
import { TOKEN_KINDS, type ModelTokens } from './tokens.ts'

export type UsageOutcome = AttemptTokens['outcome']
export type AttemptUsage = {
  readonly attempt: number
  readonly outcome: UsageOutcome
  /** Empty: the agent reported nothing. */
  readonly models: readonly ModelTokens[]
}
/** An attempt and its turn. */
export type UsedAttempt = AttemptUsage & { readonly tenant: number; readonly turn: string }

// The turn's row says the rest. A row without numbers is left out if the attempt has others. In the order of the key, so that two
// transactions cannot deadlock.
const RECORD = `
  insert into fleetline.usage
    (tenant, day, turn, attempt, model, session, agent, outcome,
     input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens)
  select t.tenant, (t.started_at at time zone 'UTC')::date, t.id, g.attempt, g.model, t.session, t.agent, g.outcome,
         g.input, g.output, g.cache_read, g.cache_write, g.reasoning
    from unnest($1::int[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::int[], $7::int[], $8::int[], $9::int[], $10::int[])
         g(tenant, turn, attempt, outcome, model, input, output, cache_read, cache_write, reasoning)
    join fleetline.turns t on t.tenant = g.tenant and t.id = g.turn
   where coalesce(g.input, g.output, g.cache_read, g.cache_write, g.reasoning) is not null
      or not exists (
        select from fleetline.usage u
         where u.tenant = t.tenant and u.day = (t.started_at at time zone 'UTC')::date and u.turn = t.id and u.attempt = g.attempt)
   order by 1, 2, 3, 4, 5
  on conflict (tenant, day, turn, attempt, model) do update
     set input_tokens = greatest(usage.input_tokens, excluded.input_tokens),
         output_tokens = greatest(usage.output_tokens, excluded.output_tokens),
         cache_read_tokens = greatest(usage.cache_read_tokens, excluded.cache_read_tokens),
         cache_write_tokens = greatest(usage.cache_write_tokens, excluded.cache_write_tokens),
         reasoning_tokens = greatest(usage.reasoning_tokens, excluded.reasoning_tokens)`

const NOTHING: ModelTokens = {
  model: '',
  inputTokens: null,
  outputTokens: null,
  cacheReadTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
}

/** In the transaction of the caller, which runs in `withPartitions`. */
export async function recordUsage(query: Query, used: readonly UsedAttempt[]): Promise<void> {
  const rows = used.flatMap(({ models, ...attempt }) =>
    (models.length > 0 ? models : [NOTHING]).map((model) => ({ ...attempt, ...model })),
  )
  if (rows.length === 0) return
  await query(RECORD, columnsOf(rows, 'tenant', 'turn', 'attempt', 'outcome', 'model', ...TOKEN_KINDS))
}

export type UsageRecorder = {
  /** May be repeated. */
  readonly record: (used: UsedAttempt) => Promise<void>
}
export function createUsageRecorder({ database }: { readonly database: Transactions }): UsageRecorder {
  return {
    record: (used) =>
      withPartitions(database, async () => {
        const outcome = await database.transaction((query) => recordUsage(query, [used]))
        valueOf(outcome, 'What an attempt has used could not be written')
      }),
  }
}
