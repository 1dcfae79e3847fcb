// Checks which JSON may be stored: `jsonFault` before anything is written, `jsonTextFault` before anything is parsed. The work
// of both is bounded for any input.

/** How deep objects and arrays may be nested, and how many fields and entries they may have together. */
export const JSON_LIMITS = { depth: 64, keys: 10_000 } as const

/** Field names that can reach a prototype when an object is copied. */
export const PROTOTYPE_KEYS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

/** An object with named fields: not an array and not null. */
export function isFields(value: unknown): value is { readonly [field: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Drops fields that are undefined. */
export function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** Why a value cannot be stored, or undefined if it can. The server checks sizes in bytes. */
export function jsonFault(whole: unknown): string | undefined {
  let keys = 0
  const walk = (value: unknown, depth: number): string | undefined => {
    if (typeof value === 'string') return textFault(value)
    if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'a number is out of range'
    if (typeof value !== 'object' || value === null) return undefined
    if (depth > JSON_LIMITS.depth) return `nested deeper than ${JSON_LIMITS.depth}`
    const entries = Object.entries(value)
    keys += entries.length
    if (keys > JSON_LIMITS.keys) return `more than ${JSON_LIMITS.keys} fields and entries`
    for (const [key, inner] of entries) {
      const fault = keyFault(key) ?? walk(inner, depth + 1)
      if (fault !== undefined) return fault
    }
    return undefined
  }
  return walk(whole, 0)
}

/** Why JSON text must not be parsed: it is nested too deep, or may contain too much. */
export function jsonTextFault(
  text: string,
  most: { readonly depth: number; readonly keys: number } = JSON_LIMITS,
): string | undefined {
  let [depth, entries] = [0, 0]
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!
    if (char === '"') at = endOfString(text, at)
    else if (char === '{' || char === '[') depth += 1
    else if (char === '}' || char === ']') depth -= 1
    if (char === '{' || char === '[' || char === ',') entries += 1
    if (depth > most.depth) return `nested deeper than ${most.depth}`
    if (entries > most.keys) return `more than ${most.keys} fields and entries`
  }
  return undefined
}

/** Counts the objects, arrays and commas in JSON text: what its value costs besides its characters. */
export function jsonEntries(text: string): number {
  let entries = 0
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!
    if (char === '"') at = endOfString(text, at)
    else if (char === '{' || char === '[' || char === ',') entries += 1
  }
  return entries
}

/** The position of the closing quote, or the end of the text. */
function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text[at - 1 - slashes] === '\\') slashes += 1
    if (slashes % 2 === 0) return at
  }
  return text.length
}

function keyFault(key: string): string | undefined {
  return PROTOTYPE_KEYS.has(key) ? `the field name ${key} is not allowed` : textFault(key)
}

/** Rejects text that PostgreSQL's jsonb cannot store, before it makes a whole batch fail. */
function textFault(text: string): string | undefined {
  if (text.includes('\0')) return 'the character U+0000 cannot be stored'
  return text.isWellFormed() ? undefined : 'half a surrogate pair cannot be stored'
}
