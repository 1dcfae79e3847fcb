// Collects the chunks of attempts that run on this pod and writes them to the table. One statement per tick writes all streams
// that have something new. If a tick fails, the next one writes the same rows, so that readers never see them in two forms.
// Each tick writes about 4 MiB; streams that did not fit go first in the next tick. A stream whose chunks are rejected is
// fenced: its attempt is told, and nothing more of it is written (E1). Memory is limited: an agent that is faster than the
// table has to wait. Transient chunks have their own rows. These are emptied once current readers have had time to read them, except for
// `data-usage`: what an attempt has used is read from the table if its pod dies.
import { isTransient, mergeDeltas, type Chunk } from '@fleetline/protocol'
import type { Config } from '../config.ts'
import type { Clock } from '../lib/clock.ts'
import type { Batch, Chunks, TurnKey } from './chunks.ts'
import { pieceOf, PIECES_LENGTH, type Piece } from './open-message.ts'

export type Streaming = TurnKey & {
  readonly attempt: number
  readonly pod: number
  /** Called when the attempt is not current any more. */
  readonly onFenced: () => void
}
export type OwnStream = {
  readonly push: (chunk: Chunk) => Piece
  /** Resolves when there is room for more chunks. Undefined: there is room now. */
  readonly room: () => Promise<void> | undefined
  /** Call it if the attempt may not be current any more. The next tick asks PostgreSQL, even if there is nothing to write. */
  readonly doubt: () => void
  /** Nothing more is written, except for chunks that are already being sent. */
  readonly close: () => void
}
type Streams = {
  readonly open: (of: Streaming) => OwnStream
  readonly flush: () => Promise<void>
  readonly size: () => number
  /** The size in memory of what is not written yet. */
  readonly bytes: () => number
}

const FLUSH_LENGTH = 4 * 1024 * 1024
const ROWS = 32 // new rows of one stream per tick; the same number of transient rows may be emptied
const ROW_LENGTH = 256 // what a row costs besides its body
// A stream's transient rows stay in the table for this long, or until they exceed this length. Readers read each tick.
const SHOWN_MS = 2_000
const SHOWN_LENGTH = 1024 * 1024

type Source = ReturnType<typeof createSource>
type Deps = Pick<Chunks, 'flush'> & Pick<Config, 'openTurnBytes' | 'openBytes'> & { readonly clock: Clock }

export function createStreams({ flush, clock, openTurnBytes, openBytes }: Deps): Streams {
  const sources = new Set<Source>()
  let unwritten = 0
  const most = { turn: openTurnBytes / 8, all: openBytes / 4 }
  const isFull = (bytes: number) => bytes > most.turn || (bytes > 0 && unwritten > most.all)
  const due = () => {
    const taken: { readonly source: Source; readonly batches: readonly Batch[] }[] = []
    let length = 0
    for (const source of sources) {
      const batches = length < FLUSH_LENGTH ? source.batches(clock.monotonicMs()) : []
      if (batches.length === 0) continue
      taken.push({ source, batches })
      for (const { body } of batches) length += ROW_LENGTH + body.length
    }
    return taken
  }
  const leave = (source: Source) => {
    unwritten -= source.bytes()
    source.letGo()
    return sources.delete(source)
  }
  return {
    size: () => sources.size,
    bytes: () => unwritten,
    flush: async () => {
      const taken = due()
      if (taken.length === 0) return
      const rows = taken.flatMap(({ source, batches }) =>
        batches.map((batch) => ({ ...source.of, ...batch })),
      )
      const held = await flush(rows)
      let place = 0
      for (const { source, batches } of taken) {
        const isHeld = held.has(place)
        place += batches.length
        if (!sources.has(source)) continue // it was closed meanwhile
        if (isHeld) {
          unwritten -= source.written(clock.monotonicMs())
          sources.delete(source)
          sources.add(source) // moves it behind the others
        } else {
          leave(source)
          source.of.onFenced()
        }
      }
      for (const source of sources) if (!isFull(source.bytes())) source.letGo()
    },
    open: (of) => {
      const source = createSource(of)
      let count = 0
      sources.add(source)
      return {
        push: (chunk) => {
          const piece = pieceOf({ index: count, count: 1 }, [chunk], JSON.stringify(chunk))
          count += 1
          if (sources.has(source)) {
            source.add(piece)
            unwritten += piece.bytes
          }
          return piece
        },
        room: () => (sources.has(source) && isFull(source.bytes()) ? source.wait() : undefined),
        doubt: source.doubt,
        close: () => void (sources.has(source) && leave(source)),
      }
    },
  }
}

function createSource(of: Streaming) {
  // Starts in doubt: the turn may have been stopped after the attempt checked it and before this stream listened for hints.
  let [sending, bytes, isDoubted]: [readonly StreamRow[], number, boolean] = [[], 0, true]
  let waiting: PromiseWithResolvers<void> | undefined
  let shown: Shown[] = []
  const pending: Piece[] = []
  return {
    of,
    /** The size of what is not written yet. */
    bytes: () => bytes,
    add: (piece: Piece) => {
      pending.push(piece)
      bytes += piece.bytes
    },
    doubt: () => void (isDoubted = true),
    wait: () => (waiting ??= Promise.withResolvers<void>()).promise,
    letGo: () => {
      waiting?.resolve()
      waiting = undefined
    },
    /** The rows that a tick writes. They stay the same until they are written. */
    batches: (nowMs: number): readonly Batch[] => {
      if (sending.length > 0) return sending
      const seen = seenOf(shown, nowMs)
      shown = shown.slice(seen.length)
      const emptied = seen.map(({ index, count, kept }) => ({ index, count, body: kept, bytes: 0 }))
      const rows = [...emptied, ...rowsOf(pending)]
      sending = rows.length === 0 && isDoubted ? [QUESTION] : rows
      isDoubted = false
      return sending
    },
    /** Returns how many bytes were written. */
    written: (nowMs: number): number => {
      for (const { index, count, body, kept } of sending)
        if (kept !== undefined && kept !== body)
          shown.push({ index, count, kept, length: body.length, sinceMs: nowMs })
      const sent = sending.reduce((sum, row) => sum + row.bytes, 0)
      bytes -= sent
      sending = []
      return sent
    },
  }
}

type StreamRow = Batch & {
  /** In memory. */
  readonly bytes: number
  /** Of a transient row: the body that stays. */
  readonly kept?: string | undefined
}
/** A transient row that is in the table. */
type Shown = Pick<Batch, 'index' | 'count'> & {
  readonly kept: string
  readonly length: number
  readonly sinceMs: number
}

const QUESTION: StreamRow = { index: 0, count: 0, body: '[]', bytes: 0 }

/** The oldest rows that were shown long enough, or that exceed the limit. */
function seenOf(shown: readonly Shown[], nowMs: number): Shown[] {
  let length = shown.reduce((sum, row) => sum + row.length, 0)
  const last = shown.findIndex((row) => {
    const isSeen = length > SHOWN_LENGTH || nowMs - row.sinceMs >= SHOWN_MS
    length -= row.length
    return !isSeen
  })
  return shown.slice(0, Math.min(ROWS, last < 0 ? shown.length : last))
}

/** Takes the next rows out of the pending pieces. */
function rowsOf(pending: Piece[]): StreamRow[] {
  const rows: StreamRow[] = []
  for (let left = PIECES_LENGTH; left > 0 && pending.length > 0 && rows.length < ROWS;) {
    const row = rowOf(pending, left)
    left -= row.body.length
    rows.push(row)
  }
  return rows
}

/** Transient and other chunks never share a row. */
function rowOf(pending: Piece[], most: number): StreamRow {
  const isShown = pending[0]!.chunks.some(isTransient)
  let [length, bytes, count] = [0, 0, 0]
  for (const piece of pending) {
    if (length >= most || piece.chunks.some(isTransient) !== isShown) break
    length += piece.length
    bytes += piece.bytes
    count += 1
  }
  const pieces = pending.splice(0, count)
  const chunks = mergeDeltas(pieces.flatMap((piece) => piece.chunks))
  const kept = isShown ? JSON.stringify(chunks.filter(({ type }) => type === 'data-usage')) : undefined
  return { index: pieces[0]!.index, count, body: JSON.stringify(chunks), bytes, kept }
}
