// The messages of turns while they are open: what the current attempt of each has said so far, in pieces without a hole.
// Readers pull from where they are, each at its own speed.
//   a reader that is at                     takes
//   this attempt, where a piece begins      the pieces from there on
//   this attempt, inside of a piece         all so far, from index 0: it begins the message anew
//   an older attempt, or at none            all so far
//   the end, or beyond it; a later attempt  nothing yet
//   a place whose pieces are gone           nothing of this attempt: it has the message when that is stored
// What they hold is bounded:
//   of one message    transient chunks: the newest stay, the pieces of older ones are emptied
//                     more than `openTurnBytes`: what is transient goes, then its first pieces
//   of all together   more than `openBytes`: the same, of each that has more than its share
import { isTransient, jsonEntries, mergeDeltas, type Chunk } from '@fleetline/protocol'
import type { Config } from '../config.ts'

/** Of JSON, roughly: what is written, read and told at once. */
export const PIECES_LENGTH = 256 * 1024

export type Piece = {
  readonly index: number
  readonly count: number
  readonly chunks: readonly Chunk[]
  /** As JSON. */
  readonly length: number
  /** In memory, roughly. */
  readonly bytes: number
}
/** Up to where a reader has the message: all below `next` of that attempt. */
export type Spot = { readonly attempt: number; readonly next: number }
type Taken = { readonly attempt: number } & Pick<Piece, 'index' | 'count' | 'chunks'>

export type OpenMessage = {
  readonly attempt: () => number
  /** The index of the next chunk. */
  readonly end: () => number
  /** Forgets what older attempts have said. */
  readonly begin: (attempt: number) => void
  /** False, and nothing changed: it does not begin where the last one ended. */
  readonly add: (piece: Piece) => boolean
  /** What a reader would take now, in memory; undefined: there is nothing for it. */
  readonly bytesAt: (spot: Spot) => number | undefined
  /** At most so many bytes; undefined: there is nothing for it, or nothing as small as that. */
  readonly take: (spot: Spot, most?: number) => Taken | undefined
  /** Nobody streams or reads it any more. */
  readonly close: () => void
}
export type OpenMessages = {
  readonly open: () => OpenMessage
  readonly bytes: () => number
}

const TRANSIENT_LENGTH = 256 * 1024
const PIECE_BYTES = 200
const ENTRY_BYTES = 64 // of an object, a list, or what stands in one: a short text may be a large value
/** Pieces behind which a reader is rarely. Older ones are joined, so that a long reply costs its text and little more. */
const LOOSE = 512
const JOINED_LENGTH = 64 * 1024

/** All that a pod has. */
export function createOpenMessages({
  openTurnBytes,
  openBytes,
}: Pick<Config, 'openTurnBytes' | 'openBytes'>): OpenMessages {
  const shelves = new Set<Shelf>()
  const bytes = () => Array.from(shelves, (shelf) => shelf.bytes()).reduce((sum, one) => sum + one, 0)
  let added = 0 // since all were added up
  const fit = (shelf: Shelf, more: number) => {
    shelf.trim(openTurnBytes)
    added += more
    if (added < openBytes / 64) return
    added = 0
    if (bytes() <= (openBytes * 31) / 32) return
    for (let most = openTurnBytes; bytes() > (openBytes * 3) / 4; most /= 2)
      for (const each of shelves) each.trim(most)
  }
  return {
    bytes,
    open: () => {
      const shelf = createShelf()
      shelves.add(shelf)
      return openMessage(shelf, {
        onAdd: (piece) => fit(shelf, piece.bytes),
        onClose: () => shelves.delete(shelf),
      })
    },
  }
}

type Keeping = { readonly onAdd: (piece: Piece) => void; readonly onClose: () => void }

function openMessage(shelf: Shelf, { onAdd, onClose }: Keeping): OpenMessage {
  let [attempt, end] = [0, 0]
  const runAt = (spot: Spot, most: number): Run | undefined => {
    if (spot.attempt > attempt || (spot.attempt === attempt && spot.next >= end)) return undefined
    return shelf.run(spot.attempt === attempt ? spot.next : 0, most)
  }
  return {
    attempt: () => attempt,
    end: () => end,
    begin: (next) => {
      shelf.clear()
      ;[attempt, end] = [next, 0]
    },
    add: (piece) => {
      if (piece.index !== end) return false
      end += piece.count
      shelf.add(piece)
      onAdd(piece)
      return true
    },
    bytesAt: (spot) => runAt(spot, Infinity)?.bytes,
    take: (spot, most = Infinity) => {
      const run = runAt(spot, most)
      if (!run) return undefined
      const chunks = mergeDeltas(run.pieces.flatMap((piece) => piece.chunks))
      const { index } = run.pieces[0]!
      const last = run.pieces.at(-1)!
      return { attempt, index, count: last.index + last.count - index, chunks }
    },
    close: () => {
      shelf.clear()
      onClose()
    },
  }
}

/** Of pieces that stand behind each other, from the place of a reader on. */
type Run = { readonly pieces: readonly Kept[]; readonly bytes: number }
type Kept = { -readonly [Field in keyof Piece]: Piece[Field] }
type Shelf = ReturnType<typeof createShelf>

/** The pieces of one message: first those that were joined, then those that are as they came. */
function createShelf() {
  let [pieces, joined, bytes]: [Kept[], number, number] = [[], 0, 0]
  let [transient, shown]: [Kept[], number] = [[], 0] // those that are not empty, and their length
  const weigh = (some: readonly Kept[]) => some.reduce((sum, piece) => sum + piece.bytes, 0)
  /** Where a reader at this index goes on, in `pieces`. */
  const placeOf = (next: number): number | undefined => {
    if (next < (pieces[0]?.index ?? 0)) return undefined // its place is gone
    const place = pieces.findLastIndex(({ index }) => index <= next) // a reader is near the end, mostly
    if (pieces[place]?.index === next) return place
    return pieces[0]?.index === 0 ? 0 : undefined
  }
  const emptyWhile = (isTooMuch: () => boolean) => {
    while (transient.length > 0 && isTooMuch()) {
      const oldest = transient.shift()!
      shown -= oldest.length
      bytes -= oldest.bytes - PIECE_BYTES
      Object.assign(oldest, { chunks: [], length: 0, bytes: PIECE_BYTES })
    }
  }
  const join = () => {
    const loose = pieces.splice(joined, LOOSE)
    const made = groupsOf(loose).map(joinedOf)
    pieces.splice(joined, 0, ...made)
    joined += made.length
    bytes += weigh(made) - weigh(loose)
    forget(loose)
  }
  const forget = (gone: readonly Kept[]) => {
    const some = new Set(gone)
    transient = transient.filter((piece) => !some.has(piece))
    shown = transient.reduce((sum, piece) => sum + piece.length, 0)
  }
  return {
    bytes: () => bytes,
    clear: () => {
      ;[pieces, joined, bytes] = [[], 0, 0]
      ;[transient, shown] = [[], 0]
    },
    add: (piece: Piece) => {
      const kept = { ...piece } // it may be emptied here, and is written elsewhere
      pieces.push(kept)
      bytes += kept.bytes
      if (piece.chunks.some(isTransient)) {
        transient.push(kept)
        shown += kept.length
        emptyWhile(() => shown > TRANSIENT_LENGTH && transient.length > 1)
      }
      if (pieces.length - joined >= 2 * LOOSE) join()
    },
    /** What is transient goes, and then its first pieces, until it has no more than that. */
    trim: (most: number) => {
      emptyWhile(() => bytes > most)
      let places = 0
      for (let left = bytes; left > most; places += 1) left -= pieces[places]!.bytes
      if (places === 0) return
      const gone = pieces.splice(0, places)
      bytes -= weigh(gone)
      joined = Math.max(0, joined - gone.length)
      forget(gone)
    },
    /** What a reader at this index takes, if that is no more than `most`. */
    run: (next: number, most: number): Run | undefined => {
      const from = placeOf(next)
      if (from === undefined) return undefined
      const run: Kept[] = []
      let [length, its] = [0, 0]
      for (const piece of pieces.slice(from)) {
        length += piece.length
        if (its + piece.bytes > most || (run.length > 0 && length > PIECES_LENGTH)) break
        its += piece.bytes
        run.push(piece)
      }
      return run.length === 0 ? undefined : { pieces: run, bytes: its }
    },
  }
}

/** `text`: the chunks as JSON. */
export function pieceOf(
  { index, count }: Pick<Piece, 'index' | 'count'>,
  chunks: readonly Chunk[],
  text: string,
): Piece {
  const bytes = PIECE_BYTES + text.length + ENTRY_BYTES * jsonEntries(text)
  return { index, count, chunks, length: text.length, bytes }
}

/** Pieces that follow each other, as many as one piece takes. */
function groupsOf(pieces: readonly Kept[]): Kept[][] {
  const groups: Kept[][] = []
  let length = Infinity
  for (const piece of pieces) {
    length += piece.length
    if (length > JOINED_LENGTH) {
      groups.push([])
      length = piece.length
    }
    groups.at(-1)!.push(piece)
  }
  return groups
}

/** One piece of them, without what is transient. */
function joinedOf(group: readonly Kept[]): Kept {
  const { index } = group[0]!
  const last = group.at(-1)!
  const chunks = mergeDeltas(group.flatMap((piece) => piece.chunks).filter((chunk) => !isTransient(chunk)))
  return pieceOf({ index, count: last.index + last.count - index }, chunks, JSON.stringify(chunks))
}
