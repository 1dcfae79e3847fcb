// Messages in the shape of the AI SDK's UI messages: an id, a role, parts, and metadata that is the application's.
// A part is opaque but for its type: what one version of a front end writes, another can read. `messageFault` says
// before anything is stored what could not be: it is bounded, whatever it is given.

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
}

/** What a sender hears, after commit only. `deduped`: it was there already, at this seq. */
export type Ack = { readonly id: string; readonly seq: number; readonly deduped: boolean }

export const MESSAGE_LIMITS = {
  /** Of parts and metadata together, as JSON in UTF-8. */
  bytes: 262_144,
  metadataBytes: 16_384,
  parts: 256,
  /** How deep objects and arrays may stand in each other, and how many fields and entries all of them may have. */
  depth: 64,
  keys: 10_000,
} as const

export const MESSAGE_ID: RegExp = /^[A-Za-z0-9_-]{1,64}$/

const PROTOTYPE_KEYS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

/** Why parts and metadata cannot be stored, or undefined if they can. Sizes in bytes are the server's to count. */
export function messageFault(content: Pick<Message, 'parts' | 'metadata'>): string | undefined {
  let keys = 0
  const walk = (value: unknown, depth: number): string | undefined => {
    if (typeof value === 'string') return textFault(value)
    if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'a number is out of range'
    if (typeof value !== 'object' || value === null) return undefined
    if (depth > MESSAGE_LIMITS.depth) return `nested deeper than ${MESSAGE_LIMITS.depth}`
    const entries = Object.entries(value)
    keys += entries.length
    if (keys > MESSAGE_LIMITS.keys) return `more than ${MESSAGE_LIMITS.keys} fields and entries`
    for (const [key, inner] of entries) {
      const fault = keyFault(key) ?? walk(inner, depth + 1)
      if (fault !== undefined) return fault
    }
    return undefined
  }
  return walk([content.parts, content.metadata], 0)
}

/** A key that would reach a prototype when somebody copies the object. */
function keyFault(key: string): string | undefined {
  return PROTOTYPE_KEYS.has(key) ? `the field name ${key} is not allowed` : textFault(key)
}

/** What PostgreSQL's jsonb refuses, told before it fails a batch. */
function textFault(text: string): string | undefined {
  if (text.includes('\0')) return 'the character U+0000 cannot be stored'
  return text.isWellFormed() ? undefined : 'half a surrogate pair cannot be stored'
}
