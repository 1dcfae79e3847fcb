// The streams of attempts that run here, on their way into the table: one statement a tick for all that have news. What a
// tick could not write is written by the next one, unchanged, so that readers never see two shapes of it. A tick writes so
// much and no more: who was left out comes first in the next. A stream that is refused is fenced: its attempt is told, and
// nothing more of it is written (E1).
import { mergeDeltas, type Chunk } from '@fleetline/protocol'
import type { Batch, Chunks, TurnKey } from './chunks.ts'
import { PIECES_LENGTH, type Piece } from './open-message.ts'

export type Streaming = TurnKey & {
  readonly attempt: number
  readonly pod: number
  /** The attempt is not current any more. */
  readonly onFenced: () => void
}
export type OwnStream = {
  readonly push: (chunk: Chunk) => Piece
  /** Its attempt may not be current any more: the next tick asks, also if there is nothing to write. */
  readonly doubt: () => void
  /** Nothing more of it is written, but for what is on its way. */
  readonly close: () => void
}
export type Streams = {
  readonly open: (of: Streaming) => OwnStream
  readonly flush: () => Promise<void>
  readonly size: () => number
}

const FLUSH_LENGTH = 4 * 1024 * 1024
const QUESTION: Batch = { index: 0, count: 0, body: '[]' }

type Source = {
  readonly of: Streaming
  readonly batch: () => Batch | undefined
  readonly written: () => void
}

export function createStreams({ flush }: Pick<Chunks, 'flush'>): Streams {
  const sources = new Set<Source>()
  const due = () => {
    const taken: { readonly source: Source; readonly batch: Batch }[] = []
    let length = 0
    for (const source of sources) {
      const batch = length < FLUSH_LENGTH ? source.batch() : undefined
      if (!batch) continue
      taken.push({ source, batch })
      length += batch.body.length
    }
    return taken
  }
  return {
    size: () => sources.size,
    flush: async () => {
      const taken = due()
      if (taken.length === 0) return
      const held = await flush(taken.map(({ source, batch }) => ({ ...source.of, ...batch })))
      taken.forEach(({ source }, place) => {
        const isOpen = sources.delete(source)
        if (held.has(place)) source.written()
        if (isOpen && held.has(place)) sources.add(source) // behind the others
        if (isOpen && !held.has(place)) source.of.onFenced()
      })
    },
    open: (of) => {
      // At first, too: it was looked at before anybody could be told about it here.
      let [count, sending, isDoubted]: [number, Batch | undefined, boolean] = [0, undefined, true]
      const pending: Piece[] = []
      const source = {
        of,
        batch: () => {
          if (sending) return sending // unchanged, until it is written
          sending = batchOf(pending) ?? (isDoubted ? QUESTION : undefined)
          isDoubted = false
          return sending
        },
        written: () => void (sending = undefined),
      }
      sources.add(source)
      return {
        push: (chunk) => {
          const piece = { index: count, count: 1, chunks: [chunk], length: JSON.stringify(chunk).length }
          count += 1
          if (sources.has(source)) pending.push(piece)
          return piece
        },
        doubt: () => void (isDoubted = true),
        close: () => void sources.delete(source),
      }
    },
  }
}

/** Takes what goes into one row out of what waits. */
function batchOf(pending: Piece[]): Batch | undefined {
  let [length, most] = [0, 0]
  for (; most < pending.length && length < PIECES_LENGTH; most += 1) length += pending[most]!.length
  const pieces = pending.splice(0, most)
  const [first] = pieces
  if (!first) return undefined
  const chunks = mergeDeltas(pieces.flatMap((piece) => piece.chunks))
  return { index: first.index, count: pieces.length, body: JSON.stringify(chunks) }
}
