// Signatures of Standard Webhooks 1.0 (S11). They cover the id, the time and the bytes of the body, so that none of these can be
// changed on the way. A captured request can be replayed for five minutes only, and only under the same id. Web Crypto makes
// and checks them: it compares in constant time and is available wherever agents run.
import type { Random } from '../lib/random.ts'

type Signed = {
  /** Has no dot. */
  readonly id: string
  /** Decimal seconds since 1970, as in the header. */
  readonly timestamp: string
  readonly body: Uint8Array
}

const SECRET_BYTES = { min: 24, made: 32, max: 64 } // the standard sets min and max
export const SECRET_RULE = `whsec_ and the base64 of ${SECRET_BYTES.min} to ${SECRET_BYTES.max} bytes`
const SECRET = /^whsec_([A-Za-z0-9+/]{32,86}={0,2})$/
const VERSION = 'v1,'
const SIGNATURE = /^v1,([A-Za-z0-9+/]{43}=)$/
const MOST_SIGNATURES = 8 // each one is checked against the whole body
const HMAC = { name: 'HMAC', hash: 'SHA-256' }

export function newSecret(random: Random): string {
  return secretOf(random.bytes(SECRET_BYTES.made))
}

export function secretOf(key: Uint8Array): string {
  return `whsec_${toBase64(key)}`
}

export function isSecret(text: string): boolean {
  return keyOf(text) !== undefined
}

export async function sign(secret: string, signed: Signed): Promise<string> {
  const mac = await crypto.subtle.sign(HMAC, await importKey(secret, 'sign'), contentOf(signed))
  return `${VERSION}${toBase64(new Uint8Array(mac))}`
}

/** Whether one of the header's signatures matches one of the secrets. Signatures of other versions are skipped. */
export async function isSignedBy(
  secrets: readonly string[],
  header: string,
  signed: Signed,
): Promise<boolean> {
  const macs = header.split(' ', MOST_SIGNATURES).flatMap((word) => bytesOf(SIGNATURE.exec(word)?.[1]) ?? [])
  const content = contentOf(signed)
  for (const secret of secrets) {
    const key = await importKey(secret, 'verify')
    for (const mac of macs) if (await crypto.subtle.verify(HMAC, key, mac, content)) return true
  }
  return false
}

function contentOf({ id, timestamp, body }: Signed): Uint8Array<ArrayBuffer> {
  const head = new TextEncoder().encode(`${id}.${timestamp}.`)
  const content = new Uint8Array(head.length + body.length)
  content.set(head)
  content.set(body, head.length)
  return content
}

async function importKey(secret: string, use: 'sign' | 'verify') {
  const key = keyOf(secret)
  if (!key) throw new TypeError(`The secret of an agent is ${SECRET_RULE}`)
  return crypto.subtle.importKey('raw', key, HMAC, false, [use])
}

function keyOf(secret: string): Uint8Array<ArrayBuffer> | undefined {
  const key = bytesOf(SECRET.exec(secret)?.[1])
  return key && key.length >= SECRET_BYTES.min && key.length <= SECRET_BYTES.max ? key : undefined
}

function bytesOf(base64: string | undefined): Uint8Array<ArrayBuffer> | undefined {
  if (base64 === undefined) return undefined
  try {
    return Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0))
  } catch {
    return undefined
  }
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
}
