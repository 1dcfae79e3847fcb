// Defines a downstream in an app's code. The definition is a plain value; it has no effect until a pod receives it. The key
// names something that has a limit of its own. A key never contains a secret:
//   provider[/account][/model][/region]   chosen in code: a provider's account, shared by the whole fleet
//   agent/<tenant>/<agent>                made by Fleetline for each agent that shares its limit with no other
import { TASK_NAME } from '@fleetline/protocol'
import { durationMs } from '../lib/duration.ts'
import { Rejected } from '../errors.ts'

// How much of the throttle is in force. An operator sets the mode for all keys of a pod, code sets it for one key. The more
// permissive of the two wins.
export const MODES = ['enforce', 'observe', 'off'] as const
export type Mode = (typeof MODES)[number]

export type DownstreamOptions = {
  /** The most calls that one pod may have in flight. */
  readonly maxPerPod?: number
  /** How long a call may wait for a permit. */
  readonly maxWait?: string
  /** Time limit of one call. Then its permit comes back, even if the call goes on. A machine's step uses its timeout instead. */
  readonly deadline?: string
  /** `observe` learns and counts but lets every call pass at once. `off` only lets calls pass. */
  readonly mode?: Mode
  /** Lets agents behind URLs share this downstream by its key. Their answers then affect all callers of the key. */
  readonly openToAgents?: boolean
}
export type DownstreamDefinition = { readonly key: string; readonly options: DownstreamOptions }
export type DownstreamSettings = {
  /** A pod's limit at the start. */
  readonly start: number
  readonly most: number
  readonly maxWaitMs: number
  readonly deadlineMs: number
  readonly mode: Mode
  readonly isOpen: boolean
}

const MARK = Symbol.for('fleetline.downstream') // the same symbol in every copy of this module
const MOST_PER_POD = 10_000
/** For work that no caller waits for. */
export const START = 8
const LONGEST_MS = 86_400_000

/** Defines a downstream, which has one limit of its own. A key looks like `bedrock/claude`. */
export function downstream(key: string, options: DownstreamOptions = {}): DownstreamDefinition {
  settingsOf(keyOf(key), options)
  return Object.freeze({ [MARK]: true, key, options })
}

export function isDownstream(value: unknown): value is DownstreamDefinition {
  return typeof value === 'object' && value !== null && MARK in value
}

/** Throws if an option is invalid. */
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

export function timeOf(name: string, text: string): number {
  const ms = durationMs(name, text)
  if (ms > LONGEST_MS) throw new Rejected('invalid', `${name}: must be a day at most`)
  return ms
}

/** Returns the more permissive mode. */
export function modeOf(one: Mode, other: Mode): Mode {
  return MODES.indexOf(one) > MODES.indexOf(other) ? one : other
}

const KEY = /^[a-z0-9][a-z0-9._-]*(\/[a-z0-9][a-z0-9._-]*){0,3}$/
const BYTES = 128
/** The keys of agents begin with this. */
export const OF_AGENTS = 'agent/'

/** Throws if code may not use this key. */
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

/** Takes the key of an agent. */
export function tenantOf(key: string): string {
  return key.split('/')[1]!
}

/** S37: a tenant may name downstreams that code has opened to agents, and those of its own agents. */
export function mayName(tenant: number, key: string, isOpen: (key: string) => boolean): boolean {
  const own = keyOfAgent(tenant, '')
  return isOpen(key) || (key.startsWith(own) && TASK_NAME.test(key.slice(own.length)))
}
