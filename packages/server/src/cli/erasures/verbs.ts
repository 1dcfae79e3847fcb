// fleetline users erase, erasures ls, erasures get, retention get, retention set: one or two requests each.
import { Rejected } from '../../errors.ts'
import { RETENTION_LIMITS } from '../../erasure/retention-limits.ts'
import type { RetentionRules } from '../../erasure/retention.ts'
import { erasureSchema, erasuresSchema, previewSchema, rulesSchema } from '../../gateway/erasure-schemas.ts'
import { apiOf, queryOf } from '../api.ts'
import type { CommandCall } from '../command.ts'
import { wholeOf } from '../options.ts'
import { EXIT, type Output } from '../output.ts'
import { mustBeSure, printReceipt } from './receipt.ts'

export async function eraseUser({ flags, args, options, output }: CommandCall): Promise<number> {
  const user = args[0]!
  mustBeSure(
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
  const whose = agent === undefined ? 'sessions' : `sessions of agent ${String(agent)}`
  if (keepDays !== null)
    mustBeSure(options, `${whose} without a message for ${keepDays} days`, '--dry-run counts them. ')
  else if (agent !== undefined) mustBeSure(options, `${whose} by the rule for all others, if there is one`)
  const body = { agent, keepDays }
  printRules(output, await api.ask({ method: 'PUT', path: '/retention', body, answer: rulesSchema }))
  return EXIT.done
}

function daysOf(text: string): number | null {
  return text === 'off' ? null : wholeOf('<days>', text, { min: 1, max: RETENTION_LIMITS.days })
}

/** One line for each rule, that of the tenant last. */
function printRules(output: Output, { keepDays, agents }: RetentionRules): void {
  const all = { agent: null, keepDays }
  output.list(
    ['agent', 'keepDays'],
    [...agents, all].map(({ agent, keepDays: days }) => ({
      agent: agent ?? 'all others',
      keepDays: days ?? 'off',
    })),
  )
}
