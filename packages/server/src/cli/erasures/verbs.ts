// fleetline users erase, erasures ls, erasures get, retention get, retention set: one or two requests each.
import { isDeepStrictEqual } from 'node:util'
import { Rejected } from '../../errors.ts'
import { RETENTION_LIMITS } from '../../erasure/retention-limits.ts'
import type { RetentionRules } from '../../erasure/retention.ts'
import {
  changedRulesSchema,
  erasureSchema,
  erasuresSchema,
  previewSchema,
  rulesSchema,
} from '../../gateway/erasure-schemas.ts'
import { apiOf, queryOf, type Api } from '../api.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { wholeOf } from '../options.ts'
import { EXIT, type Output } from '../output.ts'
import { printReceipt, requireYes, requireYesToErase } from './receipt.ts'

export async function eraseUser({ flags, args, options, output }: CommandCall): Promise<number> {
  const user = args[0]!
  requireYesToErase(
    options,
    `user ${user}: the sessions where it is the only member, and its messages in all others`,
  )
  const path = `/users/${encodeURIComponent(user)}`
  const receipt = await apiOf({ flags, output }).ask({ method: 'DELETE', path, answer: erasureSchema })
  return printReceipt(output, receipt, user)
}

export async function list({ flags, options, output }: CommandCall): Promise<number> {
  const path = `/erasures${queryOf(options, ['before', 'limit'])}`
  const { erasures } = await apiOf({ flags, output }).ask({ method: 'GET', path, answer: erasuresSchema })
  output.list(['erasure', 'kind', 'state', 'session', 'seq', 'requestedAt', 'doneAt'], erasures)
  return EXIT.done
}

export async function get({ flags, args, output }: CommandCall): Promise<number> {
  const path = `/erasures/${encodeURIComponent(args[0]!)}`
  return printReceipt(
    output,
    await apiOf({ flags, output }).ask({ method: 'GET', path, answer: erasureSchema }),
  )
}

export async function rules({ flags, output }: CommandCall): Promise<number> {
  printRules(
    output,
    await apiOf({ flags, output }).ask({ method: 'GET', path: '/retention', answer: rulesSchema }),
  )
  return EXIT.done
}

export async function setRule(call: CommandCall): Promise<number> {
  const { flags, args, options, output } = call
  const api = apiOf({ flags, output })
  const keepDays = daysOf(args[0]!)
  if (options['dryRun'] === true) return countRule(api, call, keepDays)
  const { agent } = options
  requireYesToSet(options, keepDays)
  const ask = { path: '/retention', answer: changedRulesSchema } as const
  const before = keepDays === null ? await api.ask({ ...ask, method: 'GET' }) : undefined
  const after = await api.ask({ ...ask, method: 'PUT', body: { agent, keepDays } })
  printRules(output, after)
  if (before && isDeepStrictEqual(before, after))
    output.note(
      `There was no rule for ${agent === undefined ? 'all other sessions' : `agent ${String(agent)}`}.`,
    )
  warnOfUnknownAgent(output, agent, after)
  return EXIT.done
}

async function countRule(
  api: Api,
  { options, output }: CommandCall,
  keepDays: number | null,
): Promise<number> {
  const { agent } = options
  if (keepDays === null) throw new Rejected('invalid', '--dry-run counts for a number of days, not for "off"')
  const path = `/retention/preview${queryOf({ agent, keepDays }, ['agent', 'keepDays'])}`
  const preview = await api.ask({ method: 'GET', path, answer: previewSchema })
  const { sessions, messages, from, to, isComplete } = preview
  const times = from === null ? {} : { from, to } // without sessions there are no times to show
  output.one(output.isJson ? preview : { sessions, messages, ...times, isComplete })
  warnOfUnknownAgent(output, agent, preview)
  return EXIT.done
}

function warnOfUnknownAgent(
  output: Output,
  agent: CommandOptions[string],
  { isAgentKnown }: { readonly isAgentKnown?: boolean | undefined },
): void {
  if (isAgentKnown === false)
    output.note(
      `No agent has the name ${String(agent)} now, in code or behind a URL. Unless it was removed, check the name: fleetline agents ls`,
    )
}

function requireYesToSet(options: CommandOptions, keepDays: number | null): void {
  const { agent } = options
  const whose = agent === undefined ? 'sessions without another rule' : `sessions of agent ${String(agent)}`
  if (keepDays !== null)
    requireYes(
      options,
      `This sets a rule: from now on, Fleetline erases ${whose} ${keepDays} days after their last message or failed reply. Erasing cannot be undone. To count them first, add --dry-run.`,
      'set the rule',
    )
  else if (agent !== undefined)
    requireYes(
      options,
      `Sessions of agent ${String(agent)} then follow the rule for all other sessions, if there is one (--dry-run cannot count this). Erasing cannot be undone.`,
      'remove the rule',
    )
}

function daysOf(text: string): number | null {
  return text === 'off'
    ? null
    : wholeOf('<days>', text, { min: 1, max: RETENTION_LIMITS.days, otherwise: '"off"' })
}

/** One line for each rule, that of the tenant last. JSON is as in the API. */
function printRules(output: Output, rules: RetentionRules): void {
  if (output.isJson) return output.one(rules)
  const all = { agent: 'all other sessions', keepDays: rules.keepDays ?? 'off' }
  output.list(['agent', 'keepDays'], [...rules.agents, all])
}
