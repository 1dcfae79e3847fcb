// Messages in the format of the AI SDK's UI messages: an id, a role, parts, and metadata that belongs to the application.
// Only the type of a part is read here, so that different versions of a front end can exchange parts.
import type { Id } from './ids.ts'
import { jsonFault } from './json.ts'

export type Role = 'user' | 'assistant' | 'system'

export type Part = { readonly type: string; readonly [field: string]: unknown }

export type Metadata = { readonly [field: string]: unknown }

/** The author. The id is absent if the application named none. */
export type Author = { readonly kind: 'user' | 'agent' | 'service'; readonly id?: string }

/** Both ends belong to it. */
export type SeqRange = readonly [from: number, to: number]

/** A UI message. Its id is its natural key: within a session, the same id always means the same message. */
export type Message = {
  readonly id: string
  readonly role: Role
  readonly parts: readonly Part[]
  readonly metadata?: Metadata
}

/** A message at its position in the log. */
export type Item = Message & {
  readonly seq: number
  readonly author: Author
  /** RFC 3339, UTC. */
  readonly at: string
  /** For an agent's reply: the turn that wrote it, and the last seq that it answers. */
  readonly turn?: Id<'turn'>
  readonly answers?: number
  /** For a reply that was stopped or has failed: it contains what the agent had said by then. */
  readonly status?: ItemStatus
  /** The messages in whose place this one stands: it answers or asks anew. They stay in the log, but belong to the conversation no more. */
  readonly replaces?: readonly SeqRange[]
  /** The message was erased: it has no parts any more, and its author has no id. */
  readonly erased?: true
}

export const ITEM_STATUSES = ['stopped', 'failed'] as const
export type ItemStatus = (typeof ITEM_STATUSES)[number]

/** The answer to a sender, given only after the commit. */
export type Ack = {
  readonly id: string
  readonly seq: number
  /** The message was already stored, at this seq. */
  readonly deduped: boolean
  /** Present while the message waits for a reply. `turn` and `epoch` name the live turn; this turn or the next one answers the
   *  message. While the conversation is summarised, `turn` is absent and `epoch` is that of the turn that will answer. */
  readonly turn?: Id<'turn'>
  readonly epoch?: number
}

/** The answer to a request to write a reply anew, given only after the commit. */
export type RegenerateAck = {
  readonly turn: Id<'turn'>
  readonly epoch: number
  /** The request was repeated: this turn had been started before. */
  readonly deduped: boolean
}

export const MESSAGE_LIMITS = {
  /** Of parts and metadata together, as JSON in UTF-8. */
  bytes: 262_144,
  /** The same for an agent's reply. */
  replyBytes: 4_194_304,
  metadataBytes: 16_384,
  parts: 256,
} as const

export const MESSAGE_ID: RegExp = /^[A-Za-z0-9_-]{1,64}$/

/** Why parts and metadata cannot be stored, or undefined if they can. The server checks sizes in bytes. */
export function messageFault({ parts, metadata }: Pick<Message, 'parts' | 'metadata'>): string | undefined {
  return jsonFault([parts, metadata])
}

/** Whether one of the ranges contains this seq. */
export function isWithin(seq: number, ranges: readonly SeqRange[] = []): boolean {
  return ranges.some(([from, to]) => from <= seq && seq <= to)
}

/** Whether the message says anything. A reply that says nothing is not stored. */
export function hasContent({ parts }: Pick<Message, 'parts'>): boolean {
  return parts.some(({ type, text }) => type !== 'step-start' && text !== '')
}
