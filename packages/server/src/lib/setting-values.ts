// Parsers for the text of a setting: each returns the value, or undefined if the text is invalid. `hidden` and
// `withoutPassword` show a setting without its secret.
import { isIP } from 'node:net'

export function whole(min: number, max: number) {
  return (text: string): number | undefined => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    return value >= min && value <= max ? value : undefined
  }
}

export function oneOf<const Words extends readonly string[]>(...words: Words) {
  return (text: string): Words[number] | undefined => words.find((word) => word === text)
}

export function yesOrNo(text: string): boolean | undefined {
  return text === 'yes' ? true : text === 'no' ? false : undefined
}

export function keyOrNone(text: string): Uint8Array | null | undefined {
  if (text === '') return null
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? Buffer.from(text, 'base64') : undefined
}

/** A key that signs tokens. */
export type TokenKey = { readonly id: string; readonly secret: Uint8Array }

/** `id:secret` pairs, separated by commas; none if the text is empty. */
export function tokenKeysOf(text: string): readonly TokenKey[] | undefined {
  const pairs =
    text === ''
      ? []
      : text.split(',').map((pair) => /^\s*([\w-]{1,32}):([A-Za-z0-9+/]{43,}={0,2})\s*$/.exec(pair))
  const keys = pairs.flatMap((pair) =>
    pair ? [{ id: pair[1]!, secret: Buffer.from(pair[2]!, 'base64') }] : [],
  )
  const isRight = keys.length === pairs.length && keys.every(({ secret }) => secret.length >= 32)
  return isRight && new Set(keys.map(({ id }) => id)).size === keys.length ? keys : undefined
}

/** The text of an API key (identity/key-text), with its id as the first group. */
export const API_KEY = /^fl_(?:live|test)_([0-9A-Za-z]{12})_[0-9A-Za-z]{43}$/

export function apiKeyOrNone(text: string): string | undefined {
  return text === '' || API_KEY.test(text) ? text : undefined
}

/** Some of these words, separated by commas; none if the text is empty. */
export function listOf<const Words extends readonly string[]>(...words: Words) {
  return (text: string): readonly Words[number][] | undefined => {
    const named = text === '' ? [] : text.split(',').map((word) => word.trim())
    const known = named.filter((word): word is Words[number] => words.includes(word))
    return known.length === named.length ? known : undefined
  }
}

export function hidden(text: string): string {
  return text === '' ? '' : 'hidden'
}

const SECRET_PARAMETERS = ['password', 'sslpassword'] // libpq decrypts `sslkey` with the second one

/** Shows nothing of a URL in which an `@` behind the host may be the end of a password. */
export function withoutPassword(text: string): string {
  const url = new URL(text)
  if (`${url.pathname}${url.search}${url.hash}`.includes('@')) return `${url.protocol}//…`
  if (url.password !== '') url.password = 'hidden'
  for (const name of SECRET_PARAMETERS) if (url.searchParams.has(name)) url.searchParams.set(name, 'hidden')
  return url.href
}

export function postgresUrl(text: string): string | undefined {
  const url = /^postgres(ql)?:\/\//.test(text) ? URL.parse(text) : null
  return url && !isCutShort(text, url) ? text : undefined
}

// The parameters of pg and libpq. Behind a password that contains ? and is cut short, other names follow.
const PARAMETERS =
  /^(?:user|password|passfile|host|hostaddr|port|dbname|options|(?:fallback_)?application_name|client_encoding|target_session_attrs|channel_binding|gssencmode|keepalives\w*|\w+_timeout|ssl\w*|uselibpqcompat)$/

/** Whether the password contains /, ? or #, so that the rest of it is in the wrong place: `u:12/34@host` names port 12. */
function isCutShort(text: string, { pathname, hash, search, searchParams }: URL): boolean {
  const mayHavePassword = /^\w+:\/\/[^/?#]*:/.test(text) // otherwise a database may be named a@b
  const isForeign = Array.from(searchParams.keys()).some((name) => !PARAMETERS.test(name))
  return (
    (pathname.includes('@') && mayHavePassword) || hash.includes('@') || (search.includes('@') && isForeign)
  )
}

export function httpUrl(text: string): string | undefined {
  return /^https?:\/\//.test(text) && URL.canParse(text) ? text : undefined
}

/** An address, or the name of a host. */
export function hostName(text: string): string | undefined {
  return isIP(text) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(text) ? text : undefined
}

export function label(text: string): string | undefined {
  return /^[\w.-]{0,63}$/.test(text) ? text : undefined
}
