// Detects that a provider has become slow: the ratio of the newest median to the lowest median remembered. A sample is
// the time to a call's first token; only calls that succeeded give one. A window closes with 40 samples, or after 30 s if
// it has ten. A provider that stays slow no longer counts as slow fifteen windows later. Pure.

import { medianOf } from '../../lib/median.ts'

export type Latency = {
  readonly samples: readonly number[]
  readonly sinceMs: number
  readonly medians: readonly number[]
  /** Of the last closed window; 1 until two windows have closed. */
  readonly ratio: number
}

const WINDOW = { most: 40, least: 10, ms: 30_000 }
const REMEMBERED = 15

export const UNTIMED: Latency = { samples: [], sinceMs: 0, medians: [], ratio: 1 }

/** Adds one sample. `isClosed` says that it closed its window. */
export function addSample(
  { samples, sinceMs, medians, ratio }: Latency,
  sample: number,
  nowMs: number,
): Latency & { readonly isClosed: boolean } {
  const since = samples.length === 0 ? nowMs : sinceMs
  const all = [...samples, sample]
  const isClosed = all.length >= WINDOW.most || (all.length >= WINDOW.least && nowMs - since >= WINDOW.ms)
  if (!isClosed) return { samples: all, sinceMs: since, medians, ratio, isClosed }
  const kept = [...medians, medianOf(all)].slice(-REMEMBERED)
  return { samples: [], sinceMs: nowMs, medians: kept, ratio: ratioOf(kept), isClosed }
}

function ratioOf(medians: readonly number[]): number {
  const least = Math.min(...medians)
  return least > 0 ? medians.at(-1)! / least : 1
}
