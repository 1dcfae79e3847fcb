// Fewer chunks, the same message: a delta right behind one of the same part becomes one with it, as the assembler would make
// of both. What a reader has missed costs it the size of the message, not the number of its words.
import type { Chunk } from './chunk.ts'

export function mergeDeltas(chunks: Iterable<Chunk>): Chunk[] {
  const merged: Chunk[] = []
  for (const chunk of chunks) {
    const last = merged.at(-1)
    if (last && isDelta(last) && isDelta(chunk) && chunk.type === last.type && chunk.id === last.id)
      merged[merged.length - 1] = { ...last, ...chunk, delta: last.delta + chunk.delta }
    else merged.push(chunk)
  }
  return merged
}

type Delta = Extract<Chunk, { readonly delta: string }>

/** By its type: any chunk may have a field of that name. */
function isDelta(chunk: Chunk): chunk is Delta {
  return chunk.type === 'text-delta' || chunk.type === 'reasoning-delta'
}
