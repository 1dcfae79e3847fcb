// Encrypts secrets for storage: AES-256-GCM under the fleet's key, bound to the row that they belong to. A secret that is copied
// to another row cannot be decrypted. Layout: 1 byte form, 12 bytes nonce, 16 bytes tag, then the text.
import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { Random } from '../lib/random.ts'

const [FORM, NONCE_BYTES, TAG_BYTES] = [1, 12, 16]
const CIPHER = 'aes-256-gcm'

type Seal = { readonly key: Uint8Array; /** Whose secret it is. */ readonly owner: string }

export function seal(text: string, { key, owner }: Seal, random: Random): Buffer {
  const nonce = random.bytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(owner))
  const hidden = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.of(FORM), nonce, cipher.getAuthTag(), hidden])
}

/** Undefined if it was sealed under another key, for another owner, or was changed. */
export function unseal(sealed: Buffer, { key, owner }: Seal): string | undefined {
  if (sealed[0] !== FORM) return undefined
  const [nonceEnd, tagEnd] = [1 + NONCE_BYTES, 1 + NONCE_BYTES + TAG_BYTES]
  try {
    const decipher = createDecipheriv(CIPHER, key, sealed.subarray(1, nonceEnd), { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(owner)).setAuthTag(sealed.subarray(nonceEnd, tagEnd))
    return decipher.update(sealed.subarray(tagEnd), undefined, 'utf8') + decipher.final('utf8')
  } catch {
    return undefined
  }
}
