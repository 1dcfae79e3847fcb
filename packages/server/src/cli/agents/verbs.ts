// fleetline agents ls, add, set, rm, default: one request each.
import { Rejected } from '../../errors.ts'
import { addedSchema, agentParams, agentSchema, agentsSchema } from '../../gateway/agent-schemas.ts'
import { ownTenantSchema } from '../../gateway/tenant-schemas.ts'
import { apiOf } from '../api.ts'
import { PROTOCOLS, SETTING_LIMITS } from '../../agent/settings.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { choiceOf, numberOf, wholeOf } from '../options.ts'
import { EXIT } from '../output.ts'
import { readSecret } from './secret-file.ts'

export async function list({ flags, output }: CommandCall): Promise<number> {
  const { agents } = await apiOf({ flags, output }).ask({
    method: 'GET',
    path: '/agents',
    answer: agentsSchema,
  })
  output.list(['name', 'url', 'downstream', 'createdAt', 'protocol'], agents)
  return EXIT.done
}

export async function add({ flags, args: [name, url], options, output }: CommandCall): Promise<number> {
  const { secretFile, downstream } = options
  const secret = typeof secretFile === 'string' ? readSecret(secretFile) : undefined
  const body = { name, url, secret, downstream, ...settingsOf(options) }
  output.one(
    await apiOf({ flags, output }).ask({ method: 'POST', path: '/agents', body, answer: addedSchema }),
  )
  return EXIT.done
}

export async function change({ flags, args: [name], options, output }: CommandCall): Promise<number> {
  const { secretFile, downstream, to: url } = options
  const secret = typeof secretFile === 'string' ? readSecret(secretFile) : undefined
  const body = {
    url,
    secret,
    downstream: downstream === false ? null : downstream,
    ...settingsOf(options),
  }
  const path = `/agents/${encodeURIComponent(name!)}`
  output.one(await apiOf({ flags, output }).ask({ method: 'PATCH', path, body, answer: agentSchema }))
  return EXIT.done
}

export async function remove({ flags, args: [name], output }: CommandCall): Promise<number> {
  const path = `/agents/${encodeURIComponent(name!)}`
  output.one(await apiOf({ flags, output }).ask({ method: 'DELETE', path, answer: agentParams }))
  return EXIT.done
}

export async function useByDefault({ flags, args: [name], options, output }: CommandCall): Promise<number> {
  if (name !== undefined && options['none'])
    throw new Rejected('invalid', 'Name an agent, or give --none, not both')
  const { ask } = apiOf({ flags, output })
  const [path, answer] = ['/tenant', ownTenantSchema]
  const isShown = name === undefined && !options['none']
  const body = { defaultAgent: name ?? null }
  output.one(
    await (isShown ? ask({ method: 'GET', path, answer }) : ask({ method: 'PATCH', path, body, answer })),
  )
  return EXIT.done
}

/** What is not named is left out of the request. */
function settingsOf(options: CommandOptions) {
  const { window, compaction } = SETTING_LIMITS
  type Limits = { readonly least: number; readonly most: number }
  const wholeIn = (name: string, flag: string, { least: min, most: max }: Limits) =>
    options[name] === undefined ? undefined : wholeOf(flag, options[name], { min, max })
  const numberIn = (name: string, flag: string, { least: min, most: max }: Limits) =>
    options[name] === undefined ? undefined : numberOf(flag, options[name], { min, max })
  return {
    protocol: choiceOf('--protocol', options['protocol'], PROTOCOLS),
    window: unlessEmpty({
      messages: wholeIn('messages', '--messages', window.messages),
      bytes: wholeIn('bytes', '--bytes', window.bytes),
    }),
    compaction: unlessEmpty({
      enabled: options['compaction'],
      tokenBudget: wholeIn('tokenBudget', '--token-budget', compaction.tokenBudget),
      triggerRatio: numberIn('triggerRatio', '--trigger-ratio', compaction.triggerRatio),
      url: options['summaryUrl'] === false ? null : options['summaryUrl'],
    }),
  }
}

function unlessEmpty<Value extends object>(value: Value): Value | undefined {
  return Object.values(value).every((one) => one === undefined) ? undefined : value
}
