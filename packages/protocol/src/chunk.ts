// Chunks of the AI SDK's UI message stream, those that this release knows: what an agent answers with, and what its
// readers see while it does. `chunkOf` lets nothing else through. Fields that a known chunk has beside these are kept and
// passed on; a chunk of another type is refused, since every reader would have to know what it does to the message.
import { isFields } from './json.ts'
import type { Metadata } from './message.ts'

/** Whatever the agent's provider says about a part. */
export type ProviderMetadata = { readonly [provider: string]: unknown }

type Described = { readonly providerMetadata?: ProviderMetadata }
type WithMetadata = { readonly messageMetadata?: Metadata | null }

export type StartChunk = WithMetadata & { readonly type: 'start'; readonly messageId?: string }
export type FinishChunk = WithMetadata & { readonly type: 'finish'; readonly finishReason?: FinishReason }
export type ErrorChunk = { readonly type: 'error'; readonly errorText: string }
export type StepChunk = { readonly type: 'start-step' | 'finish-step' | 'reset-step' }
export type TextChunk =
  | (Described & { readonly type: 'text-start' | 'reasoning-start'; readonly id: string })
  | (Described & {
      readonly type: 'text-delta' | 'reasoning-delta'
      readonly id: string
      readonly delta: string
    })
  | (Described & { readonly type: 'text-end'; readonly id: string; readonly citations?: readonly unknown[] })
  | (Described & { readonly type: 'reasoning-end'; readonly id: string })
export type DataChunk = {
  readonly type: `data-${string}`
  readonly id?: string
  readonly data: unknown
  /** For those who look now: no part of the message. */
  readonly transient?: boolean
}
export type Chunk = StartChunk | FinishChunk | ErrorChunk | StepChunk | TextChunk | DataChunk

export const FINISH_REASONS = [
  'stop',
  'length',
  'content-filter',
  'tool-calls',
  'error',
  'interrupted',
  'other',
] as const
export type FinishReason = (typeof FINISH_REASONS)[number]

/** An agent has sent what is no chunk, or a chunk that may not stand where it stands. */
export class ChunkError extends Error {
  override readonly name = 'ChunkError'
}

const CHECKS = {
  text: (value: unknown) => typeof value === 'string',
  flag: (value: unknown) => typeof value === 'boolean',
  list: (value: unknown) => Array.isArray(value),
  fields: isFields,
  'fields or null': (value: unknown) => value === null || isFields(value),
  reason: (value: unknown) => FINISH_REASONS.includes(value as FinishReason),
} as const

/** What the fields of each type hold. One with `?` may be missing. */
const FIELDS: Readonly<Record<string, Readonly<Record<string, keyof typeof CHECKS>>>> = {
  start: { 'messageId?': 'text', 'messageMetadata?': 'fields or null' },
  finish: { 'finishReason?': 'reason', 'messageMetadata?': 'fields or null' },
  error: { errorText: 'text' },
  'start-step': {},
  'finish-step': {},
  'reset-step': {},
  'text-start': { id: 'text', 'providerMetadata?': 'fields' },
  'text-delta': { id: 'text', delta: 'text', 'providerMetadata?': 'fields' },
  'text-end': { id: 'text', 'citations?': 'list', 'providerMetadata?': 'fields' },
  'reasoning-start': { id: 'text', 'providerMetadata?': 'fields' },
  'reasoning-delta': { id: 'text', delta: 'text', 'providerMetadata?': 'fields' },
  'reasoning-end': { id: 'text', 'providerMetadata?': 'fields' },
}
const DATA_FIELDS = { 'id?': 'text', 'transient?': 'flag' } as const

/** The value itself, if it is a chunk. */
export function chunkOf(value: unknown): Chunk {
  if (!isFields(value)) throw new ChunkError('A chunk is a JSON object')
  const { type } = value
  if (typeof type !== 'string') throw new ChunkError('A chunk has a type')
  const fields = type.startsWith('data-')
    ? DATA_FIELDS
    : Object.hasOwn(FIELDS, type)
      ? FIELDS[type]!
      : undefined
  if (!fields) throw new ChunkError(`Chunks of the type ${type.slice(0, 64)} are not known`)
  for (const [field, check] of Object.entries(fields)) {
    const name = field.replace('?', '')
    if (value[name] === undefined ? name !== field : CHECKS[check](value[name])) continue
    throw new ChunkError(`${type}: ${name} is not what it should be (${check})`)
  }
  return value as unknown as Chunk
}
