// fleetline users erase, erasures ls, erasures get, retention get, retention set: one or two requests each.
import { Rejected } from '../../errors.ts'
import { RETENTION_LIMITS } from '../../erasure/retention-limits.ts'
import type { RetentionRules } from '../../erasure/retention.ts'
import { erasureSchema, erasuresSchema, previewSchema, rulesSchema } from '../../gateway/erasure-schemas.ts'
import { apiOf, queryOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
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
  return printReceipt(
    output,
    await apiOf({ flags, output }).ask({ method: 'DELETE', path, answer: erasureSchema }),
  )
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

export async function setRule({ flags, args, options, output }: CommandCall): Promise<number> {
  const api = apiOf({ flags, output })
  const { agent } = options
  const keepDays = daysOf(args[0]!)
  const path = `/retention/preview${queryOf({ agent, keepDays: keepDays ?? undefined }, ['agent', 'keepDays'])}`
  if (options['dryRun'] === true) {
    if (keepDays === null)
      throw new Rejected('invalid', '--dry-run counts for a number of days, not for "off"')
    output.one(await api.ask({ method: 'GET', path, answer: previewSchema }))
    return EXIT.done
  }
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
  const body = { agent, keepDays }
  printRules(output, await api.ask({ method: 'PUT', path: '/retention', body, answer: rulesSchema }))
  return EXIT.done
}

function daysOf(text: string): number | null {
  return text === 'off' ? null : wholeOf('<days>', text, { min: 1, max: RETENTION_LIMITS.days })
}

/** One line for each rule, that of the tenant last. JSON is as in the API. */
function printRules(output: Output, rules: RetentionRules): void {
  if (output.isJson) return output.one(rules)
  const all = { agent: 'all other sessions', keepDays: rules.keepDays ?? 'off' }
  output.list(['agent', 'keepDays'], [...rules.agents, all])
}
