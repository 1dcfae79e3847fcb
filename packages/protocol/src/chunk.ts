// The chunks of the AI SDK's UI message stream, release 7. An agent answers with them, and readers see them while it speaks.
import type { Metadata, Part } from './message.ts'

/** What the agent's provider says about a part. */
export type ProviderMetadata = { readonly [provider: string]: unknown }

type Described = { readonly providerMetadata?: ProviderMetadata }
type WithMetadata = { readonly messageMetadata?: Metadata | null }

type StartChunk = WithMetadata & { readonly type: 'start'; readonly messageId?: string }
type FinishChunk = WithMetadata & { readonly type: 'finish'; readonly finishReason?: FinishReason }
type MetadataChunk = WithMetadata & { readonly type: 'message-metadata' }
type AbortChunk = { readonly type: 'abort'; readonly reason?: string }
type ErrorChunk = { readonly type: 'error'; readonly errorText: string }
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

type OfCall = { readonly toolCallId: string }
/** Facts that stay with a call once they were sent. */
type ToolFacts = {
  readonly title?: string
  readonly toolMetadata?: { readonly [field: string]: unknown }
  readonly providerExecuted?: boolean
}
type ToolInput = OfCall & ToolFacts & Described & { readonly toolName: string; readonly dynamic?: boolean }
export type ToolInputStart = ToolInput & {
  readonly type: 'tool-input-start'
  /** The format of the deltas; JSON by default. */
  readonly inputEncoding?: 'json' | 'text'
}
export type ToolInputDelta = OfCall & { readonly type: 'tool-input-delta'; readonly inputTextDelta: string }
export type ToolOutput = OfCall &
  ToolFacts &
  Described & { readonly dynamic?: boolean } & (
    | { readonly type: 'tool-output-available'; readonly output: unknown; readonly preliminary?: boolean }
    | { readonly type: 'tool-output-error'; readonly errorText: string }
  )
export type ApprovalRequest = OfCall & {
  readonly type: 'tool-approval-request'
  readonly approvalId: string
  readonly approvalDescriptor?: unknown
  readonly inputSchemaInput?: unknown
  readonly reason?: string
  readonly isAutomatic?: boolean
  readonly signature?: string
}
export type ApprovalResponse = Described & {
  readonly type: 'tool-approval-response'
  readonly approvalId: string
  readonly approved: boolean
  readonly reason?: string
  readonly providerExecuted?: boolean
}
export type ToolChunk =
  | ToolInputStart
  | ToolInputDelta
  | (ToolInput & { readonly type: 'tool-input-available'; readonly input: unknown })
  | (ToolInput & {
      readonly type: 'tool-input-error'
      readonly input: unknown
      readonly errorText: string
    })
  | ApprovalRequest
  | ApprovalResponse
  | ToolOutput
  | (OfCall & { readonly type: 'tool-output-denied' })

/** Becomes a part of the message as it is. */
export type WholeChunk =
  | (Described & {
      readonly type: 'file' | 'reasoning-file'
      readonly url: string
      readonly mediaType: string
    })
  | (Described & {
      readonly type: 'source-url'
      readonly sourceId: string
      readonly url: string
      readonly title?: string
    })
  | (Described & {
      readonly type: 'source-document'
      readonly sourceId: string
      readonly mediaType: string
      readonly title: string
      readonly filename?: string
    })
  | (Described & { readonly type: 'custom'; readonly kind: string })
  | { readonly type: 'steering-message'; readonly id: string; readonly parts: readonly Part[] }
export type DataChunk = {
  readonly type: `data-${string}`
  readonly id?: string
  readonly data: unknown
  /** Shown to current readers only; not a part of the message. */
  readonly transient?: boolean
}
export type Chunk =
  | StartChunk
  | FinishChunk
  | MetadataChunk
  | AbortChunk
  | ErrorChunk
  | StepChunk
  | TextChunk
  | ToolChunk
  | WholeChunk
  | DataChunk

/** Shown to current readers only: later readers do not receive it, and no message contains it. */
export function isTransient(chunk: Chunk): boolean {
  return chunk.type.startsWith('data-') && (chunk as DataChunk).transient === true
}

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

/** An agent has sent something that is not a chunk, or a chunk that is not allowed at this point. */
export class ChunkError extends Error {
  override readonly name = 'ChunkError'
  /** What the agent should do instead. The message ends with it. */
  readonly remedy: string | undefined

  constructor(problem: string, options: ErrorOptions & { readonly remedy?: string } = {}) {
    const { remedy } = options
    super(remedy === undefined ? problem : `${problem}. ${remedy}`, options)
    this.remedy = remedy
  }
}
