// Messages in the shape of the AI SDK's UI messages: an id, a role, parts, and metadata that is the application's.
// A part is opaque but for its type: what one version of a front end writes, another can read.
import type { Id } from './ids.ts'
import { jsonFault } from './json.ts'

export type Role = 'user' | 'assistant' | 'system'

export type Part = { readonly type: string; readonly [field: string]: unknown }

export type Metadata = { readonly [field: string]: unknown }

/** Who wrote it; the id is absent if the application named nobody. */
export type Author = { readonly kind: 'user' | 'agent' | 'service'; readonly id?: string }

/** A UI message. Its id is its natural key: within a session the same id again is the same message, for ever. */
export type Message = {
  readonly id: string
  readonly role: Role
  readonly parts: readonly Part[]
  readonly metadata?: Metadata
}

/** A message at its place in the log. */
export type Item = Message & {
  readonly seq: number
  readonly author: Author
  /** RFC 3339, UTC. */
  readonly at: string
  /** Of an agent's reply: the turn that wrote it, and the last seq that it answers. */
  readonly turn?: Id<'turn'>
  readonly answers?: number
  /** Of a reply that was stopped, or failed: it is what its agent had said by then. */
  readonly status?: ItemStatus
}

export const ITEM_STATUSES = ['stopped', 'failed'] as const
export type ItemStatus = (typeof ITEM_STATUSES)[number]

/** What a sender hears, after commit only. */
export type Ack = {
  readonly id: string
  readonly seq: number
  /** It was there already, at this seq. */
  readonly deduped: boolean
  /** While it waits for a reply: the turn that is live, and its epoch. That one answers it, or the next. */
  readonly turn?: Id<'turn'>
  readonly epoch?: number
}

export const MESSAGE_LIMITS = {
  /** Of parts and metadata together, as JSON in UTF-8. */
  bytes: 262_144,
  /** The same, of an agent's reply. */
  replyBytes: 4_194_304,
  metadataBytes: 16_384,
  parts: 256,
} as const

export const MESSAGE_ID: RegExp = /^[A-Za-z0-9_-]{1,64}$/

/** Why parts and metadata cannot be stored, or undefined if they can. Sizes in bytes are the server's to count. */
export function messageFault({ parts, metadata }: Pick<Message, 'parts' | 'metadata'>): string | undefined {
  return jsonFault([parts, metadata])
}

/** Whether it says anything: a reply that does not is not stored. */
export function hasContent({ parts }: Pick<Message, 'parts'>): boolean {
  return parts.some(({ type, text }) => type !== 'step-start' && text !== '')
}
