// fleetline agents ls, add, set, rm, default: one request each.
import { readFileSync } from 'node:fs'
import { Rejected } from '../../errors.ts'
import { addedSchema, agentParams, agentSchema, agentsSchema } from '../../gateway/agent-schemas.ts'
import { ownTenantSchema } from '../../gateway/tenant-schemas.ts'
import { apiOf } from '../api.ts'
import { WINDOW_LIMITS } from '../../agent/settings.ts'
import type { CommandCall, CommandOptions } from '../command.ts'
import { wholeOf } from '../options.ts'
import { EXIT } from '../output.ts'

export async function list({ flags, output }: CommandCall): Promise<number> {
  const { agents } = await apiOf(flags).ask({ method: 'GET', path: '/agents', answer: agentsSchema })
  output.list(['name', 'url', 'downstream', 'createdAt'], agents)
  return EXIT.done
}

export async function add({ flags, args: [name, url], options, output }: CommandCall): Promise<number> {
  const { secretFile, downstream } = options
  const secret = typeof secretFile === 'string' ? read(secretFile) : undefined
  const body = { name, url, secret, downstream, window: windowOf(options) }
  output.one(await apiOf(flags).ask({ method: 'POST', path: '/agents', body, answer: addedSchema }))
  return EXIT.done
}

export async function change({ flags, args: [name], options, output }: CommandCall): Promise<number> {
  const { secretFile, downstream, to: url } = options
  const secret = typeof secretFile === 'string' ? read(secretFile) : undefined
  const body = {
    url,
    secret,
    downstream: downstream === false ? null : downstream,
    window: windowOf(options),
  }
  const path = `/agents/${encodeURIComponent(name!)}`
  output.one(await apiOf(flags).ask({ method: 'PATCH', path, body, answer: agentSchema }))
  return EXIT.done
}

export async function remove({ flags, args: [name], output }: CommandCall): Promise<number> {
  const path = `/agents/${encodeURIComponent(name!)}`
  output.one(await apiOf(flags).ask({ method: 'DELETE', path, answer: agentParams }))
  return EXIT.done
}

export async function useByDefault({ flags, args: [name], options, output }: CommandCall): Promise<number> {
  if (name !== undefined && options['none'])
    throw new Rejected('invalid', 'Name an agent, or give --none, not both')
  const { ask } = apiOf(flags)
  const [path, answer] = ['/tenant', ownTenantSchema]
  const isShown = name === undefined && !options['none']
  const body = { defaultAgent: name ?? null }
  output.one(
    await (isShown ? ask({ method: 'GET', path, answer }) : ask({ method: 'PATCH', path, body, answer })),
  )
  return EXIT.done
}

function windowOf(options: CommandOptions): { messages?: number; bytes?: number } | undefined {
  const given = (['messages', 'bytes'] as const).flatMap((field) => {
    const { least: min, most: max } = WINDOW_LIMITS[field]
    return options[field] === undefined ? [] : [[field, wholeOf(`--${field}`, options[field], { min, max })]]
  })
  return given.length === 0 ? undefined : (Object.fromEntries(given) as { messages?: number; bytes?: number })
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (cause) {
    throw new Rejected('invalid', `--secret-file: ${path} cannot be read`, { cause })
  }
}
