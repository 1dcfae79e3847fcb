// What can be set for an agent. Values of agents behind URLs are stored in their row, those of agents in code are options of
// `agent(…)`. What is not set has its default.
import { MOST_SENT, type Budget } from '../conversation/budget.ts'
import { Rejected } from '../errors.ts'

export type AgentSettings = {
  /** What the agent is sent, and answers with: requests and chunks of the AI SDK, or inputs and events of AG-UI. */
  readonly protocol: Protocol
  /** How much of the conversation the agent is sent: the last messages, up to this number and this size as JSON. */
  readonly window: HistoryWindow
  readonly compaction: CompactionSettings
}
export const PROTOCOLS = ['ai-sdk', 'ag-ui'] as const
export type Protocol = (typeof PROTOCOLS)[number]
export type HistoryWindow = { readonly messages: number; readonly bytes: number }
/** Whether a conversation that has become long is summarised, and when. */
export type CompactionSettings = Budget & {
  readonly enabled: boolean
  /** Where an agent behind a URL is asked for a summary; null: at its own URL. */
  readonly url: string | null
}

/** A change names any of the settings, and any fields of a setting. */
export type SettingsChange = {
  readonly [Name in keyof AgentSettings]?: Part<AgentSettings[Name]> | undefined
}
type Part<Value> = { readonly [Field in keyof Value]?: Value[Field] | undefined }

/** The ranges of numbers. */
export const SETTING_LIMITS = {
  window: {
    messages: { least: 1, most: MOST_SENT.messages },
    bytes: { least: 1_024, most: MOST_SENT.bytes },
  },
  compaction: {
    tokenBudget: { least: 1_000, most: 10_000_000 },
    triggerRatio: { least: 0.1, most: 1 },
  },
} as const

const DEFAULTS: AgentSettings = {
  protocol: 'ai-sdk',
  window: MOST_SENT,
  compaction: { enabled: false, tokenBudget: 50_000, triggerRatio: 0.7, url: null },
}

export function settingsOf({ protocol, window = {}, compaction = {} }: SettingsChange): AgentSettings {
  return {
    protocol: protocol ?? DEFAULTS.protocol,
    window: { ...DEFAULTS.window, ...given(window) },
    compaction: { ...DEFAULTS.compaction, ...given(compaction) },
  }
}

/** Returns the settings to store: only what was set, so that a later release may change its defaults. Fields of a later release are
 *  kept. */
export function changedBy(
  stored: SettingsChange,
  { protocol, window = {}, compaction = {} }: SettingsChange,
): SettingsChange {
  return given({
    ...stored,
    protocol: protocol ?? stored.protocol,
    window: unlessEmpty({ ...stored.window, ...given(window) }),
    compaction: unlessEmpty({ ...stored.compaction, ...given(compaction) }),
  })
}

/** Throws if a number is out of its range. `name` says whose settings they are. */
export function checkSettings(name: string, change: SettingsChange): void {
  for (const [setting, limits] of Object.entries(SETTING_LIMITS))
    for (const [field, { least, most }] of Object.entries(limits)) {
      const value = (change[setting as keyof SettingsChange] as Record<string, unknown> | undefined)?.[field]
      if (value === undefined) continue
      const [isWhole, what] =
        field === 'triggerRatio' ? [true, 'a number'] : [Number.isInteger(value), 'a whole number']
      if (typeof value === 'number' && isWhole && value >= least && value <= most) continue
      throw new Rejected('invalid', `${name}: ${setting}.${field} must be ${what} from ${least} to ${most}`)
    }
}

/** Throws if settings contradict each other. */
export function checkTogether({ protocol, compaction: { enabled, url } }: AgentSettings): void {
  if (protocol === 'ag-ui' && enabled && url === null)
    throw new Rejected(
      'invalid',
      'settings.compaction.url (--summary-url) is missing: AG-UI has no request for a summary. Name a URL that writes summaries, or leave out compaction',
    )
}

function unlessEmpty<Value extends object>(value: Value): Value | undefined {
  return Object.keys(value).length === 0 ? undefined : value
}

type Given<Value> = { readonly [Field in keyof Value]?: Exclude<Value[Field], undefined> }

function given<Value extends object>(value: Value): Given<Value> {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as Given<Value>
}
