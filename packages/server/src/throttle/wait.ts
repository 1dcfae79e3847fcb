// How long a provider asked to be left alone, in milliseconds: the first of its signs that can be read and is more than
// nothing. When a bucket is full again (`x-ratelimit-reset-tokens`, `anthropic-ratelimit-…-reset`) is not a wait: a call
// may go long before. A moment is one of the provider's clock: its own `date` is now, if it told that. Pure.
import type { ProviderReply } from './reply.ts'

/** Azure has said a day; who says more is not believed. */
export const LONGEST_MS = 86_400_000
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Undefined: it said nothing about it. */
export function waitOf(reply: ProviderReply, ours: number): number | undefined {
  const { status, header, text } = reply
  const theirs = Date.parse(header('date') ?? '')
  const now = Number.isNaN(theirs) ? ours : theirs
  const refusal = (name: string) => (status === 429 ? header(name) : undefined) // else it tells of a bucket
  const signs = [
    () => numberOf(header('retry-after-ms')),
    () => numberOf(header('x-ms-retry-after-ms')),
    () => secondsOf(header('retry-after')),
    () => untilDate(header('retry-after'), now),
    () => secondsOf(/(?:^|[;,\s])t=(\d{1,9})/.exec(refusal('ratelimit') ?? '')?.[1]),
    () => resetOf(refusal('ratelimit-reset'), now),
    () => resetOf(refusal('x-ratelimit-reset'), now),
    () => secondsOf(/"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d+)?)s"/.exec(text)?.[1]),
    () => spokenMs(text),
  ]
  for (const sign of signs) {
    const ms = sign()
    if (ms !== undefined && ms > 0) return Math.min(ms, LONGEST_MS)
  }
  return undefined
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d{1,15}(\.\d+)?\s*$/.test(text) ? Number(text) : undefined
}

function secondsOf(text: string | undefined): number | undefined {
  const seconds = numberOf(text)
  return seconds === undefined ? undefined : seconds * 1_000
}

function untilDate(text: string | undefined, now: number): number | undefined {
  if (text === undefined || !/^\s*[A-Z]/i.test(text)) return undefined // all else is read as some date, too
  return finite(Date.parse(text) - now)
}

/** Milliseconds or seconds since 1970, else seconds from now. */
function resetOf(text: string | undefined, now: number): number | undefined {
  const value = numberOf(text)
  if (value === undefined) return undefined
  if (value > 1e12) return value - now
  return value > 1e9 ? value * 1_000 - now : value * 1_000
}

/** `2 minutes`, `320ms`, `1m26.4s`. */
function spokenMs(text: string): number | undefined {
  const begin = /(?:retry after|try again in)\s+(?=\d)/i.exec(text)
  if (!begin) return undefined
  const part = /(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|h|milliseconds?|seconds?|minutes?|hours?)(?![a-z])\s*/iy
  part.lastIndex = begin.index + begin[0].length
  let ms: number | undefined
  for (let found = part.exec(text); found; found = part.exec(text)) {
    const [, count, unit] = found
    const short = /^(ms|milli)/i.test(unit!) ? 'ms' : unit![0]!.toLowerCase()
    ms = (ms ?? 0) + Number(count) * UNITS[short]!
  }
  return ms
}

function finite(ms: number): number | undefined {
  return Number.isFinite(ms) ? ms : undefined
}
