// Parses origins of web pages as an operator lists them: `https://app.example.com,http://localhost:5173`. `loopback` stands for
// all pages of this machine, `*` for all pages.
import { isLoopbackOrigin } from './loopback.ts'

export type Origins = {
  has(origin: string): boolean
  /** Every origin is allowed. */
  readonly isAny: boolean
  /** No origin is allowed. */
  readonly isNone: boolean
}

/** Undefined if an entry is invalid. */
export function originsOf(text: string): Origins | undefined {
  const entries = text.trim() === '' ? [] : text.split(',').map((entry) => entry.trim())
  const [isAny, isLocal] = [entries.includes('*'), entries.includes('loopback')]
  const named = new Set(entries.filter((entry) => entry !== '*' && entry !== 'loopback'))
  for (const entry of named)
    if (!/^https?:[^*]+$/.test(entry) || URL.parse(entry)?.origin !== entry) return undefined
  return {
    has: (origin) => isAny || named.has(origin) || (isLocal && isLoopbackOrigin(origin)),
    isAny,
    isNone: entries.length === 0,
  }
}
