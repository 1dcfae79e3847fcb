// The text of an API key: `fl_live_<id>_<secret>`, or `fl_test_…`. The prefix lets programs that search for leaked secrets find
// it. The id finds the key's row and is no secret. The secret has 256 random bits, so one SHA-256 is enough to store it: nobody
// can try all of them.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Random } from '../lib/random.ts'
import { API_KEY } from '../lib/setting-values.ts'

export type KeyMode = 'live' | 'test'
export type KeyText = { readonly id: string; readonly text: string }

const ID_LENGTH = 12 // 71 bits
const SECRET_LENGTH = 43 // 256 bits
const LETTERS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

export const KEY_ID: RegExp = /^[0-9A-Za-z]{12}$/

export function mintKey(mode: KeyMode, random: Random): KeyText {
  const id = letters(random, ID_LENGTH)
  return { id, text: `fl_${mode}_${id}_${letters(random, SECRET_LENGTH)}` }
}

/** The id in the text of a key; undefined if the text is no key. */
export function idOfKey(text: string): string | undefined {
  return API_KEY.exec(text)?.[1]
}

export function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** Takes the same time for every wrong text. */
export function isDigestOf(digest: Uint8Array, text: string): boolean {
  return timingSafeEqual(digestOf(text), digest)
}

/** Draws letters, each with the same probability: bytes above the last multiple of 62 are drawn again. */
function letters(random: Random, count: number): string {
  const limit = 256 - (256 % LETTERS.length)
  let text = ''
  while (text.length < count)
    for (const byte of random.bytes(count)) if (byte < limit) text += LETTERS[byte % LETTERS.length]
  return text.slice(0, count)
}
