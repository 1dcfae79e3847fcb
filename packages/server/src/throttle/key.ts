// What a downstream is called: by a name for each of what has a limit of its own, never by a secret.
//   provider[/account][/model][/region]   what code names: a provider's account, for the whole fleet
//   agent/<tenant>/<agent>                each agent that shares a limit with nobody: ours, which no code names
import { TASK_NAME } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'

const KEY = /^[a-z0-9][a-z0-9._-]*(\/[a-z0-9][a-z0-9._-]*){0,3}$/
const BYTES = 128
/** How those of agents begin. */
export const OF_AGENTS = 'agent/'

/** Refuses what code may not name. */
export function keyOf(key: string): string {
  if (isOfAgent(key))
    throw new Rejected('invalid', `${key}: keys that begin with ${OF_AGENTS} stand for agents`)
  if (KEY.test(key) && Buffer.byteLength(key) <= BYTES) return key
  throw new Rejected(
    'invalid',
    'A downstream has a key such as provider/account/model: one to four parts of a-z, 0-9, dot, dash and underscore',
  )
}

export function keyOfAgent(tenant: number, name: string): string {
  return `${OF_AGENTS}${tenant}/${name}`
}

export function isOfAgent(key: string): boolean {
  return key.startsWith(OF_AGENTS)
}

/** Of the key of an agent. */
export function tenantOf(key: string): string {
  return key.split('/')[1]!
}

/** S37: a tenant names what code has opened to agents, and what is its own. */
export function mayName(tenant: number, key: string, isOpen: (key: string) => boolean): boolean {
  const own = keyOfAgent(tenant, '')
  return isOpen(key) || (key.startsWith(own) && TASK_NAME.test(key.slice(own.length)))
}
