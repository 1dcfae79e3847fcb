// Answers how many tokens a tenant has used: by day, agent, model or session, and for one turn. Days that are summed are read from their
// sums, all others from the rows of attempts. Sessions have no sums: a question about them reads the rows, and covers at most 31 days.
import type { AttemptTokens } from '@fleetline/protocol'
import { valueOf, type Transactions } from '../store/database.ts'
import { counted, SUMS } from './sums.ts'
import type { TokenKind } from './tokens.ts'

export const USAGE_KEYS = ['day', 'agent', 'model', 'session'] as const
export type UsageKey = (typeof USAGE_KEYS)[number]

export type UsageQuestion = {
  readonly by: UsageKey
  /** The first and the last day, as YYYY-MM-DD. */
  readonly from: string
  readonly to: string
  readonly agent: string | undefined
  /** The UUID of a session. */
  readonly session: string | undefined
  readonly limit: number
}
export type UsageSums = Readonly<Record<TokenKind, number>> & {
  readonly turns: number
  readonly attempts: number
  /** Attempts whose agent reported nothing. */
  readonly unreported: number
}
export type UsageRow = UsageSums & { readonly key: string }

export type UsageList = {
  /** The largest first; days in their order. */
  readonly list: (tenant: number, question: UsageQuestion) => Promise<readonly UsageRow[]>
  readonly ofTurn: (tenant: number, turn: string) => Promise<readonly AttemptTokens[]>
}

const KEY_COLUMNS: Readonly<Record<UsageKey, string>> = {
  day: 'day::text',
  agent: 'agent',
  model: 'model',
  session: 'session::text',
}
const TOKENS = [
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
]
const NUMBERS = ['turns', 'attempts', 'unreported', ...TOKENS]
const NAMES = `r.turns::float8 as turns, r.attempts::float8 as attempts, r.unreported::float8 as unreported,
         r.input_tokens::float8 as "inputTokens", r.output_tokens::float8 as "outputTokens",
         r.cache_read_tokens::float8 as "cacheReadTokens", r.cache_write_tokens::float8 as "cacheWriteTokens",
         r.reasoning_tokens::float8 as "reasoningTokens"`

// $1 tenant · $2 first day · $3 last day · $4 agent · $5 session · $6 limit. The window functions of `counted` need all rows of an
// attempt, and those of an attempt have one agent and one session, so the filters do not split them.
const OF_ATTEMPTS = counted(`u.tenant = $1 and u.day between $2::date and $3::date
     and ($4::text is null or u.agent = $4) and ($5::uuid is null or u.session = $5)`)
const OF_DAYS = `
  select d.day, d.agent, d.model, ${NUMBERS.map((name) => `d.${name}`).join(', ')}
    from fleetline.usage_days d, fleetline.usage_progress p
   where d.tenant = $1 and d.day between $2::date and $3::date and d.day < p.day
     and ($4::text is null or d.agent = $4) and $5::uuid is null
  union all
  select a.day, a.agent, a.model, ${SUMS}
    from (${OF_ATTEMPTS} and ($5::uuid is not null or u.day >= (select day from fleetline.usage_progress))) a
   group by a.day, a.agent, a.model`
const OF_SESSIONS = `select a.session, ${SUMS} from (${OF_ATTEMPTS}) a group by a.session`
const OF_TURN = `
  select attempt, outcome, model, input_tokens as "inputTokens", output_tokens as "outputTokens",
         cache_read_tokens as "cacheReadTokens", cache_write_tokens as "cacheWriteTokens", reasoning_tokens as "reasoningTokens"
    from (select u.*, row_number() over (partition by u.attempt order by coalesce(u.input_tokens, u.output_tokens,
                 u.cache_read_tokens, u.cache_write_tokens, u.reasoning_tokens) is null, u.model) as place
            from fleetline.turns t
            join fleetline.usage u on u.tenant = t.tenant and u.day = (t.started_at at time zone 'UTC')::date and u.turn = t.id
           where t.tenant = $1 and t.id = $2) u
   where u.place = 1 or coalesce(u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens, u.reasoning_tokens) is not null
   order by attempt, model`

// A group without attempts and tokens contains only superseded rows: it is left out.
export const usageStatement = (by: UsageKey): string => `
  select r.key, ${NAMES}
    from (select ${KEY_COLUMNS[by]} as key, ${NUMBERS.map((name) => `sum(${name}) as ${name}`).join(', ')}
            from (${by === 'session' ? OF_SESSIONS : OF_DAYS}) s group by 1) r
   where r.attempts > 0 or ${TOKENS.map((name) => `r.${name}`).join(' + ')} > 0
   order by ${by === 'day' ? 'r.key' : 'r.input_tokens + r.output_tokens desc, r.key'} limit $6`

export function createUsageList({ database }: { readonly database: Transactions }): UsageList {
  const read = async <Row extends object>(text: string, values: readonly unknown[]) => {
    const outcome = await database.transaction((query) => query<Row>(text, values), { access: 'read' })
    return valueOf(outcome, 'The usage cannot be read')
  }
  return {
    list: (tenant, { by, from, to, agent, session, limit }) =>
      read<UsageRow>(usageStatement(by), [tenant, from, to, agent ?? null, session ?? null, limit]),
    ofTurn: (tenant, turn) => read<AttemptTokens>(OF_TURN, [tenant, turn]),
  }
}
