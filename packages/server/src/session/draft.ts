// Prepares a message before it joins a batch: the key made from its id, the digest of its content, and its body as the JSON
// text that is stored. Pure.
import { hash } from 'node:crypto'
import type { Author, Message, Role } from '@fleetline/protocol'

export type MessageDraft = {
  readonly id: string
  readonly key: string
  /** A signed 64-bit number, written as PostgreSQL writes it. */
  readonly digest: string
  readonly role: Role
  readonly author: Author
  readonly body: string
  readonly bytes: number
}

export function draftOf(message: Message & { readonly author: Author }): MessageDraft {
  const { id, role, author, parts, metadata } = message
  const body = JSON.stringify({ parts, metadata })
  return {
    id,
    key: keyOf(id),
    digest: digestOf({ role, author, parts, metadata }),
    role,
    author,
    body,
    bytes: Buffer.byteLength(body),
  }
}

/** The first 16 bytes of the id's SHA-256, formatted as a UUID. */
export function keyOf(id: string): string {
  const hex = hash('sha256', id)
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    '-',
  )
}

/** Digests the content, not the bytes: the order of an object's fields does not matter. */
function digestOf(content: unknown): string {
  return hash('sha256', canonical(content), 'buffer').readBigInt64BE(0).toString()
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`).join()}}`
}
