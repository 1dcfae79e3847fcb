// What can be set for an agent. Values of agents behind URLs are stored in their row, those of agents in code are options of
// `agent(…)`. What is not set has its default.
import { PAGE_LIMITS } from '@fleetline/protocol'
import { Rejected } from '../errors.ts'

export type AgentSettings = {
  /** How much of the conversation the agent is sent: the last messages, up to this number and this size as JSON. */
  readonly window: HistoryWindow
}
export type HistoryWindow = { readonly messages: number; readonly bytes: number }
/** A part of them. A window may be given in part, too. */
export type SettingsChange = { readonly window?: WindowChange | undefined }
type WindowChange = { readonly [Field in keyof HistoryWindow]?: number | undefined }

export const WINDOW_LIMITS = {
  messages: { least: 1, most: 500 },
  bytes: { least: 1_024, most: PAGE_LIMITS.bytes },
} as const

const DEFAULTS: AgentSettings = {
  window: { messages: WINDOW_LIMITS.messages.most, bytes: WINDOW_LIMITS.bytes.most },
}

export function settingsOf({ window }: SettingsChange): AgentSettings {
  return { window: { ...DEFAULTS.window, ...given(window ?? {}) } }
}

/** As they are stored: only what differs from the default, so that a later release may change defaults. */
export function changedBy(stored: SettingsChange, { window }: SettingsChange): SettingsChange {
  const next = { ...stored.window, ...given(window ?? {}) }
  return Object.keys(next).length === 0 ? {} : { window: next }
}

/** Throws if a value is out of its range. `name` says whose settings they are. */
export function checkSettings(name: string, { window = {} }: SettingsChange): void {
  for (const [field, { least, most }] of Object.entries(WINDOW_LIMITS)) {
    const value = window[field as keyof HistoryWindow]
    if (value === undefined || (Number.isInteger(value) && value >= least && value <= most)) continue
    throw new Rejected('invalid', `${name}: window.${field} must be a whole number from ${least} to ${most}`)
  }
}

function given({ messages, bytes }: WindowChange): Partial<HistoryWindow> {
  return { ...(messages !== undefined && { messages }), ...(bytes !== undefined && { bytes }) }
}
