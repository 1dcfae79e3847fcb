// What a downstream is called: by a name for each of what has a limit of its own, never by a secret.
import { Rejected } from '../errors.ts'

const KEY = /^[a-z0-9][a-z0-9._-]*(\/[a-z0-9][a-z0-9._-]*){0,3}$/
const BYTES = 128

/** Refuses what is none. */
export function keyOf(key: string): string {
  if (KEY.test(key) && Buffer.byteLength(key) <= BYTES) return key
  throw new Rejected(
    'invalid',
    'A downstream has a key such as provider/account/model: one to four parts of a-z, 0-9, dot, dash and underscore',
  )
}
