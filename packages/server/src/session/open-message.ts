// The message of one turn while it is open: what its current attempt has said so far, in pieces without a hole. Readers pull
// from where they are, each at its own speed.
//   a reader that is at                     takes
//   this attempt, where a piece begins      the pieces from there on
//   this attempt, inside of a piece         all so far, from index 0: it begins the message anew
//   an older attempt, or at none            all so far
//   the end, or beyond it; a later attempt  nothing yet
import { mergeDeltas, type Chunk } from '@fleetline/protocol'

/** Of JSON, roughly: what is written, read and told at once. */
export const PIECES_LENGTH = 256 * 1024

export type Piece = {
  readonly index: number
  readonly count: number
  readonly chunks: readonly Chunk[]
  /** As JSON. */
  readonly length: number
}
/** Up to where a reader has the message: all below `next` of that attempt. */
export type Spot = { readonly attempt: number; readonly next: number }
export type Taken = { readonly attempt: number } & Pick<Piece, 'index' | 'count' | 'chunks'>

export type OpenMessage = {
  readonly attempt: () => number
  /** The index of the next chunk. */
  readonly end: () => number
  /** Forgets what older attempts have said. */
  readonly begin: (attempt: number) => void
  /** False, and nothing changed: it does not begin where the last one ended. */
  readonly add: (piece: Piece) => boolean
  readonly take: (spot: Spot) => Taken | undefined
}

export function createOpenMessage(): OpenMessage {
  let [attempt, pieces, end]: [number, Piece[], number] = [0, [], 0]
  const placeOf = (spot: Spot): number => {
    if (spot.attempt !== attempt || spot.next === 0) return 0
    const place = pieces.findLastIndex(({ index }) => index <= spot.next) // a reader is near the end, mostly
    return pieces[place]?.index === spot.next ? place : 0
  }
  return {
    attempt: () => attempt,
    end: () => end,
    begin: (next) => void ([attempt, pieces, end] = [next, [], 0]),
    add: (piece) => {
      if (piece.index !== end) return false
      pieces.push(piece)
      end += piece.count
      return true
    },
    take: (spot) => {
      if (spot.attempt > attempt || (spot.attempt === attempt && spot.next >= end) || end === 0)
        return undefined
      const from = placeOf(spot)
      let to = from
      for (let length = 0; to < pieces.length && (to === from || length < PIECES_LENGTH); to += 1)
        length += pieces[to]!.length
      const taken = pieces.slice(from, to)
      const { index } = taken[0]!
      const last = taken.at(-1)!
      const chunks = mergeDeltas(taken.flatMap((piece) => piece.chunks))
      return { attempt, index, count: last.index + last.count - index, chunks }
    },
  }
}
