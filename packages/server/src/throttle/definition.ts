// A downstream as an app defines it: a plain value without effect until a pod is given it. Its key names what has a limit of its
// own, and never holds a secret:
//   provider[/account][/model][/region]   named by code: a provider's account, for the whole fleet
//   agent/<tenant>/<agent>                made by Fleetline: each agent that shares a limit with nobody
import { TASK_NAME } from '@fleetline/protocol'
import { durationMs } from '../lib/duration.ts'
import { Rejected } from '../errors.ts'

// How much of the throttle is in force. An operator may loosen every key of a pod, and code one key; nobody tightens what
// another has loosened.
export const MODES = ['enforce', 'observe', 'off'] as const
export type Mode = (typeof MODES)[number]

export type DownstreamOptions = {
  /** In flight at once from one pod, at the very most. */
  readonly maxPerPod?: number
  /** For a permit. */
  readonly maxWait?: string
  /** Of one call: then its permit is back, whatever became of it. A step of a machine has its timeout instead. */
  readonly deadline?: string
  /** `observe` learns and counts, and lets every call pass at once; `off` lets it pass, and nothing else. */
  readonly mode?: Mode
  /** Agents behind URLs may share it, by its key: what they answer then holds for all who call it. */
  readonly openToAgents?: boolean
}
export type DownstreamDefinition = { readonly key: string; readonly options: DownstreamOptions }
export type DownstreamSettings = {
  /** The first limit of a pod. */
  readonly start: number
  readonly most: number
  readonly maxWaitMs: number
  readonly deadlineMs: number
  readonly mode: Mode
  readonly isOpen: boolean
}

const MARK = Symbol.for('fleetline.downstream') // of any copy of this module
const MOST_PER_POD = 10_000
/** For work that nobody waits for. */
export const START = 8
const LONGEST_MS = 86_400_000

/** What has one limit of its own, by its key: `bedrock/claude`. */
export function downstream(key: string, options: DownstreamOptions = {}): DownstreamDefinition {
  settingsOf(keyOf(key), options)
  return Object.freeze({ [MARK]: true, key, options })
}

export function isDownstream(value: unknown): value is DownstreamDefinition {
  return typeof value === 'object' && value !== null && MARK in value
}

/** Refuses what cannot be meant. */
export function settingsOf(key: string, options: DownstreamOptions): DownstreamSettings {
  const { maxPerPod: most = 200, maxWait = '30s', deadline = '15m', mode = 'enforce' } = options
  if (!Number.isInteger(most) || most < 1 || most > MOST_PER_POD)
    throw new Rejected('invalid', `${key}: maxPerPod must be from 1 to ${MOST_PER_POD}`)
  const [maxWaitMs, deadlineMs] = [timeOf(`${key}: maxWait`, maxWait), timeOf(`${key}: deadline`, deadline)]
  if (deadlineMs === 0) throw new Rejected('invalid', `${key}: deadline must be more than nothing`)
  if (!MODES.includes(mode)) throw new Rejected('invalid', `${key}: mode must be one of ${MODES.join(', ')}`)
  const start = Math.min(START, most)
  return { start, most, maxWaitMs, deadlineMs, mode, isOpen: options.openToAgents === true }
}

/** In milliseconds. */
export function timeOf(name: string, text: string): number {
  const ms = durationMs(name, text)
  if (ms > LONGEST_MS) throw new Rejected('invalid', `${name}: must be a day at most`)
  return ms
}

/** The more permissive of both. */
export function modeOf(one: Mode, other: Mode): Mode {
  return MODES.indexOf(one) > MODES.indexOf(other) ? one : other
}

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
