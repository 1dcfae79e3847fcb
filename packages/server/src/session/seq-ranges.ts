// Ranges of seqs as PostgreSQL writes them: `{[2,5),[8,9)}` is 2 to 4, and 8.
import type { SeqRange } from '@fleetline/protocol'

export function formatRanges(ranges: readonly SeqRange[]): string {
  return `{${ranges.map(([from, to]) => `[${from},${to}]`).join()}}`
}

export function parseRanges(text: string): SeqRange[] {
  return Array.from(text.matchAll(/\[(\d+),(\d+)\)/g), ([, from, end]) => [Number(from), Number(end) - 1])
}
