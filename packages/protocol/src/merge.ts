// Merges chunks without changing the message: a delta that directly follows one of the same part is joined with it, as the
// assembler would join them. So a late reader receives as much as the message is long, however many deltas there were.
import type { Chunk, ToolInputDelta } from './chunk.ts'

export function mergeDeltas(chunks: Iterable<Chunk>): Chunk[] {
  const merged: Chunk[] = []
  for (const chunk of chunks) {
    const last = merged.at(-1)
    const both = last && mergeOf(last, chunk)
    if (both) merged[merged.length - 1] = both
    else merged.push(chunk)
  }
  return merged
}

/** Decides by type, because any chunk may have a field with the name of a delta's. */
function mergeOf(last: Chunk, next: Chunk): Chunk | undefined {
  if (isText(next) && isText(last) && last.type === next.type && last.id === next.id)
    return { ...last, ...next, delta: last.delta + next.delta }
  if (isInput(next) && isInput(last) && last.toolCallId === next.toolCallId)
    return { ...last, ...next, inputTextDelta: last.inputTextDelta + next.inputTextDelta }
  return undefined
}

function isText(chunk: Chunk): chunk is Extract<Chunk, { readonly delta: string }> {
  return chunk.type === 'text-delta' || chunk.type === 'reasoning-delta'
}

function isInput(chunk: Chunk): chunk is ToolInputDelta {
  return chunk.type === 'tool-input-delta'
}
