// Finds the new chunks when an attempt is sent again from its first chunk with deltas merged differently. It keeps a digest and a length
// instead of the text, so that a reader does not hold the message in memory twice. Pure.
import { createHash, type Hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { mergeDeltas, type Chunk } from '@fleetline/protocol'

const UNITS = 'utf16le' // a delta may end in the middle of a character

export type SentChunks = {
  readonly push: (chunks: readonly Chunk[]) => void
  /** Returns the part of `all` that was not pushed yet. `all` must be merged. Undefined: it does not begin with the pushed chunks. */
  readonly findNew: (all: readonly Chunk[]) => Chunk[] | undefined
}
/** The last chunk, to which the next delta may belong. */
type LastChunk = { bare: Chunk; readonly words: Hash; length: number }

export function createSentChunks(): SentChunks {
  const closed = createHash('sha256') // of all chunks but the last
  let [count, open]: [number, LastChunk | undefined] = [0, undefined]
  const push = (chunk: Chunk) => {
    const { bare, words } = partsOf(chunk)
    const merged = open && mergeDeltas([open.bare, bare])
    if (open && merged?.length === 1) open.bare = merged[0]!
    else {
      if (open) closed.update(digestOf(open))
      if (open) count += 1
      open = { bare, words: createHash('sha256'), length: 0 }
    }
    open.words.update(words, UNITS)
    open.length += words.length
  }
  return {
    push: (chunks) => chunks.forEach(push),
    findNew: (all) => {
      if (!open) return [...all]
      const last = all[count]
      const before = createHash('sha256')
      for (const chunk of all.slice(0, count)) before.update(digestOf(openOf(chunk)))
      const isSame = last && isDeepStrictEqual(before.digest(), closed.copy().digest())
      const rest = isSame ? restOf(open, last) : undefined
      return rest && [...rest, ...all.slice(count + 1)]
    },
  }
}

/** What the chunk says beyond the open one. */
function restOf(open: LastChunk, chunk: Chunk): Chunk[] | undefined {
  const { bare, words, field } = partsOf(chunk)
  const isSaid = isDeepStrictEqual(open.bare, bare) && words.length === open.length
  const beginning = createHash('sha256').update(words.slice(0, open.length), UNITS).digest()
  if (words.length < open.length || !isDeepStrictEqual(beginning, open.words.copy().digest()))
    return undefined
  if (isSaid) return []
  if (field === undefined || mergeDeltas([open.bare, bare]).length > 1) return undefined
  return [{ ...chunk, [field]: words.slice(open.length) }]
}

function openOf(chunk: Chunk): LastChunk {
  const { bare, words } = partsOf(chunk)
  return { bare, words: createHash('sha256').update(words, UNITS), length: words.length }
}

function digestOf({ bare, words }: LastChunk): string {
  return `${JSON.stringify(bare)} ${words.copy().digest('hex')}\n`
}

/** Splits a delta into its chunk without text, and its text. */
function partsOf(chunk: Chunk): { readonly bare: Chunk; readonly words: string; readonly field?: string } {
  if (chunk.type === 'text-delta' || chunk.type === 'reasoning-delta')
    return { bare: { ...chunk, delta: '' }, words: chunk.delta, field: 'delta' }
  if (chunk.type === 'tool-input-delta')
    return { bare: { ...chunk, inputTextDelta: '' }, words: chunk.inputTextDelta, field: 'inputTextDelta' }
  return { bare: chunk, words: '' }
}
