// The streams of attempts that run here, on their way into the table: one statement a tick for all that have news. What a
// tick could not write is written by the next one, unchanged, so that readers never see two shapes of it. A stream that is
// refused is fenced: its attempt is told, and nothing more of it is written (E1).
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
  /** Nothing more of it is written. Resolves when nothing is on its way. */
  readonly close: () => Promise<void>
}
export type Streams = {
  readonly open: (of: Streaming) => OwnStream
  readonly flush: () => Promise<void>
  readonly size: () => number
}

type Source = {
  readonly of: Streaming
  readonly batch: () => Batch | undefined
  readonly written: () => void
}

export function createStreams({ flush }: Pick<Chunks, 'flush'>): Streams {
  const sources = new Set<Source>()
  let flushing: Promise<unknown> = Promise.resolve()
  const flushAll = async () => {
    const due = [...sources].flatMap((source) => {
      const batch = source.batch()
      return batch ? [{ source, batch }] : []
    })
    if (due.length === 0) return
    const held = await flush(due.map(({ source, batch }) => ({ ...source.of, ...batch })))
    due.forEach(({ source }, place) => {
      if (held.has(place)) source.written()
      else if (sources.delete(source)) source.of.onFenced()
    })
  }
  return {
    size: () => sources.size,
    flush: () => {
      const now = flushAll()
      flushing = now.catch(() => undefined)
      return now
    },
    open: (of) => {
      let [count, sending]: [number, Batch | undefined] = [0, undefined]
      const pending: Piece[] = []
      const source = {
        of,
        batch: () => (sending ??= batchOf(pending)),
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
        close: async () => {
          sources.delete(source)
          await flushing
        },
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
