// The messages of turns while they are open. Each message is what the current attempt has said so far, in pieces without a
// gap. Readers pull from their position, each at its own speed.
//   a reader's position                     the reader takes
//   this attempt, where a piece begins      the pieces from there on
//   this attempt, inside a piece            everything so far, from index 0: it starts the message again
//   an older attempt, or none               everything so far
//   the end or beyond it, a later attempt   nothing yet
//   where pieces were dropped               nothing of this attempt: it gets the message once that is stored
// Memory is limited:
//   one message    transient chunks: the newest stay, pieces of older ones are emptied
//                  more than `openTurnBytes`: transient chunks are dropped first, then the oldest pieces
//   all together   more than `openBytes`: the same, for every message above its share
import { isTransient, jsonEntries, mergeDeltas, type Chunk } from '@fleetline/protocol'
import type { Config } from '../config.ts'

/** Roughly how much JSON is written, read or sent at once. */
export const PIECES_LENGTH = 256 * 1024

export type Piece = {
  readonly index: number
  readonly count: number
  readonly chunks: readonly Chunk[]
  /** Length as JSON. */
  readonly length: number
  /** Rough size in memory. */
  readonly bytes: number
}
/** How far a reader has the message: everything below `next` of that attempt. */
export type Spot = { readonly attempt: number; readonly next: number }
type Taken = { readonly attempt: number } & Pick<Piece, 'index' | 'count' | 'chunks'>

export type OpenMessage = {
  readonly attempt: () => number
  /** The index of the next chunk. */
  readonly end: () => number
  /** Drops what older attempts have said. */
  readonly begin: (attempt: number) => void
  /** False if the piece does not begin where the last one ended; then nothing changes. */
  readonly add: (piece: Piece) => boolean
  /** The size in memory of what this reader would take now. Undefined: there is nothing to take. */
  readonly bytesAt: (spot: Spot) => number | undefined
  /** Takes at most `most` bytes. Undefined: there is nothing to take, or the next piece is larger. */
  readonly take: (spot: Spot, most?: number) => Taken | undefined
  /** Call it when nobody streams or reads the message any more. */
  readonly close: () => void
}
export type OpenMessages = {
  readonly open: () => OpenMessage
  readonly bytes: () => number
}

const TRANSIENT_LENGTH = 256 * 1024
const PIECE_BYTES = 200
const ENTRY_BYTES = 64 // per object, list or entry of one: a short text may become a large value
/** How many of the newest pieces stay as they came; readers are rarely further behind. Older pieces are joined, so that a long
 *  reply costs little more than its text. */
const LOOSE = 512
const JOINED_LENGTH = 64 * 1024

/** All open messages of a pod. */
export function createOpenMessages({
  openTurnBytes,
  openBytes,
}: Pick<Config, 'openTurnBytes' | 'openBytes'>): OpenMessages {
  const shelves = new Set<Shelf>()
  const bytes = () => Array.from(shelves, (shelf) => shelf.bytes()).reduce((sum, one) => sum + one, 0)
  let added = 0 // bytes since the last total
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

/** Consecutive pieces, from a reader's position on. */
type Run = { readonly pieces: readonly Kept[]; readonly bytes: number }
type Kept = { -readonly [Field in keyof Piece]: Piece[Field] }
type Shelf = ReturnType<typeof createShelf>

/** The pieces of one message: first the joined ones, then those that are as they came. */
function createShelf() {
  let [pieces, joined, bytes]: [Kept[], number, number] = [[], 0, 0]
  let [transient, shown]: [Kept[], number] = [[], 0] // the transient pieces that are not empty, and their total length
  const weigh = (some: readonly Kept[]) => some.reduce((sum, piece) => sum + piece.bytes, 0)
  /** The place in `pieces` where a reader at this index continues. */
  const placeOf = (next: number): number | undefined => {
    if (next < (pieces[0]?.index ?? 0)) return undefined // its pieces were dropped
    const place = pieces.findLastIndex(({ index }) => index <= next) // most readers are near the end
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
      const kept = { ...piece } // a copy: it may be emptied here while the stream still has to write the piece
      pieces.push(kept)
      bytes += kept.bytes
      if (piece.chunks.some(isTransient)) {
        transient.push(kept)
        shown += kept.length
        emptyWhile(() => shown > TRANSIENT_LENGTH && transient.length > 1)
      }
      if (pieces.length - joined >= 2 * LOOSE) join()
    },
    /** Drops transient chunks first, then the oldest pieces, until at most `most` bytes are left. */
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
    /** What a reader at this index takes: pieces of at most `most` bytes together. */
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

/** `text` is the chunks as JSON. */
export function pieceOf(
  { index, count }: Pick<Piece, 'index' | 'count'>,
  chunks: readonly Chunk[],
  text: string,
): Piece {
  const bytes = PIECE_BYTES + text.length + ENTRY_BYTES * jsonEntries(text)
  return { index, count, chunks, length: text.length, bytes }
}

/** Groups consecutive pieces, each group small enough for one piece. */
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

/** Joins the group into one piece and drops transient chunks. */
function joinedOf(group: readonly Kept[]): Kept {
  const { index } = group[0]!
  const last = group.at(-1)!
  const chunks = mergeDeltas(group.flatMap((piece) => piece.chunks).filter((chunk) => !isTransient(chunk)))
  return pieceOf({ index, count: last.index + last.count - index }, chunks, JSON.stringify(chunks))
}
