// Schemas of usage in requests and answers.
import { parseId } from '@fleetline/protocol'
import { z } from 'zod'
import { USAGE_KEYS } from '../usage/list.ts'
import { agentName } from './agent-schemas.ts'
import { whole } from './query.ts'

const DAY = /^(?:19[7-9]\d|[2-9]\d{3})-\d{2}-\d{2}$/
export const USAGE_LIMITS = { days: 400, sessionDays: 31, usualDays: 30, rows: 1_000, usualRows: 400 }

const day = z.string().refine(isDay, 'must be a day of the years 1970 to 9999, such as 2026-01-31')
const session = z.string().transform((text, context) => {
  const id = parseId('session', text)
  if (!id) context.addIssue({ code: 'custom', message: 'must be the id of a session' })
  return id ?? z.NEVER
})

export const usageQuery = z.object({
  by: z.enum(USAGE_KEYS).default('day').describe('what to sum by: day, agent, model or session'),
  from: day.optional().describe('the first day, in UTC; default: 29 days before `to`'),
  to: day.optional().describe('the last day, in UTC; default: today'),
  agent: agentName.optional().describe('only this agent'),
  session: session.optional().describe('only this session; takes its id, not its alias'),
  limit: whole(1, USAGE_LIMITS.rows)
    .default(USAGE_LIMITS.usualRows)
    .describe(
      'how many rows to return. With `by=day` the earliest days, otherwise the rows with the most input and output tokens',
    ),
})

const sums = {
  turns: z.int(),
  attempts: z.int().describe('that called their agent'),
  unreported: z.int().describe('attempts whose agent reported no tokens'),
  inputTokens: z.int(),
  outputTokens: z.int(),
  cacheReadTokens: z.int().describe('part of inputTokens'),
  cacheWriteTokens: z.int().describe('part of inputTokens'),
  reasoningTokens: z.int().describe('part of outputTokens'),
}
export const usageSchema = z.object({
  by: z.enum(USAGE_KEYS),
  from: z.string(),
  to: z.string(),
  rows: z.array(
    z.object({ key: z.string().describe('the day, agent, model or session; empty: not named'), ...sums }),
  ),
})

function isDay(text: string): boolean {
  const time = DAY.test(text) ? Date.parse(text) : Number.NaN
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}
