// A downstream as an app says what it is: a plain value, which says nothing until a pod is given it.
import { durationMs } from '../lib/duration.ts'
import { Rejected } from '../errors.ts'
import { keyOf } from './key.ts'
import { MODES, type Mode } from './mode.ts'

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
