// fleetline usage: one request.
import { usageSchema } from '../../gateway/usage-schemas.ts'
import { apiOf, queryOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { EXIT } from '../output.ts'

const COLUMNS = [
  'turns',
  'attempts',
  'unreported',
  'inputTokens',
  'outputTokens',
  'cacheReadTokens',
  'cacheWriteTokens',
  'reasoningTokens',
]

export async function usage({ flags, options, output }: CommandCall): Promise<number> {
  const path = `/usage${queryOf(options, ['by', 'from', 'to', 'agent', 'session', 'limit'])}`
  const { by, from, to, rows } = await apiOf({ flags, output }).ask({
    method: 'GET',
    path,
    answer: usageSchema,
  })
  output.list(
    [by, ...COLUMNS],
    rows.map(({ key, ...row }) => ({ [by]: output.isJson ? key : key || '(unnamed)', ...row })),
  )
  output.note(`Turns that started from ${from} to ${to}, in UTC.`)
  return EXIT.done
}
