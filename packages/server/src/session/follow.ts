// Follows a session: first what is stored, then what is new, without missing anything in between. A follower reads page after
// page from its position. At the head it is told about the live turn and waits for the feed. It holds one page at a time and
// reads the next one when its reader has taken that page, so each follower goes at its own speed. All followers of a pod
// together hold at most `followBytes`. A follower that needs more waits; meanwhile one that has held its page for too long is
// disconnected and can resume later. Guarantees:
//   D1  after seq k a follower gets k+1, k+2, … and nothing else; a gap in the log is a bug and ends the stream with an error
//   D3  a follower whose seq is beyond the head, from the start or because the log was cut, is told so and starts again at
//       the beginning
//   S35 a follower is told which messages were erased, also while it was away; the follower of an erased session ends
//   D4  a follower is told how turns ended, after the messages that they wrote: turns that were live since it came, and those
//       that its cursor asks for, even if it was away meanwhile. Limit: the last 20. If the last turn was stopped, the
//       follower is also told when it has halted.
//
//   at the head                               the follower is told
//   turns have ended                          how they ended, unless it was told before
//   the last turn was stopped and its agent   that the turn has halted, unless a new turn starts first
//   may still be working
//   a turn is live                            which pod runs it, whenever that changes; its chunks, from where the reader is
import {
  formatId,
  parseId,
  type ChunksFrame,
  type ErasedFrame,
  type GapFrame,
  type MessagesFrame,
  type Turn,
  type TurnFrame,
} from '@fleetline/protocol'
import type { Config } from '../config.ts'
import { endedEpoch } from '../conversation/step.ts'
import { Bug } from '../errors.ts'
import type { ByteBudget, BudgetShare } from '../lib/byte-budget.ts'
import { phaseOf, type Beyond, type Feed, type FeedPlace, type Progress } from './feed.ts'
import type { Live, Watch } from './live.ts'
import type { Spot } from './open-message.ts'
import type { SessionKey } from './items.ts'
import type { LogPage, Replay } from './replay.ts'
import type { TurnView } from './turn-view.ts'

/** A frame before the session's name is added. */
export type Nameless =
  | Omit<MessagesFrame, 'session'>
  | Omit<GapFrame, 'session'>
  | Omit<TurnFrame, 'session'>
  | Omit<ChunksFrame, 'session'>
  | Omit<ErasedFrame, 'session'>

/** A reader's position. */
export type Cursor = {
  readonly seq: number
  /** The last epoch whose end the reader need not be told. Undefined: the epoch of the last turn that had ended when it
   *  came. */
  readonly ended?: number | undefined
  /** How much of the next epoch's reply the reader has. */
  readonly open?: Spot | undefined
  /** The last batch of erased messages that the reader knows. Undefined: none, if it has messages; a reader that starts at 0 reads erased
   *  messages as they are now. */
  readonly erased?: number | undefined
}
export type ToldFrame = { readonly frame: Nameless; /** After the frame. */ readonly at: Cursor }

/** The reader's side. The signal is aborted when the reader has gone; `cut` disconnects it. */
export type FollowListener = { readonly signal: AbortSignal; readonly cut: () => void }

/** Ends when the signal is aborted. It holds a place among the followers and gives it back when it ends; a generator that is
 *  never started keeps its place. */
type Following = (listener: FollowListener) => AsyncGenerator<ToldFrame, void, undefined>

export type Follow = {
  /** Undefined: there is no such session. A follower is registered only after its session was found (S4). */
  readonly follow: (key: SessionKey, from: Cursor) => Promise<Following | undefined>
}

type Deps = Replay &
  Pick<Feed, 'reserve'> &
  Pick<Live, 'watch'> &
  Pick<TurnView, 'readEnded'> &
  Pick<Config, 'cell' | 'followBytes'> & { readonly budget: ByteBudget }

// A page is sent as one frame. After each frame the reader has a new position to resume from.
const PAGE = { limit: 100, leastBytes: 4 * 1024, mostBytes: 256 * 1024 }
const COPIES = 4 // of what is sent, in memory: as read, as a frame, as text, and as bytes being sent
const READS = 128 // followers that read at once: thousands of reads would miss their deadlines, and make others miss theirs
const MOST_ENDED = 20

export function createFollow(deps: Deps): Follow {
  return {
    follow: async (key, from) => {
      const place = deps.reserve()
      let found: LogPage | undefined
      try {
        found = await deps.read(key, { after: from.seq, limit: 0 })
      } finally {
        if (!found) place.leave()
      }
      if (!found) return undefined
      const ended = from.ended ?? endedEpoch(found)
      const erased = from.erased ?? (from.seq > 0 ? 0 : found.eraseCount)
      return (listener) => tell({ ...deps, ...listener, place, key }, { ...from, ended, erased })
    },
  }
}

type Start = Deps & FollowListener & { readonly place: FeedPlace; readonly key: SessionKey }

async function* tell(start: Start, { seq, ended, open, erased }: Cursor): ReturnType<Following> {
  const { place, key, signal } = start
  const share = start.budget.open(start.cut)
  const at = { seq, ended, open, erased, watched: undefined, halting: undefined, shown: '' }
  const reader: Reader = { ...start, share, ...at }
  try {
    const beyond = place.join(key)
    while (!signal.aborted) {
      const page = yield* tellLog(reader)
      if (!page) return
      if (reader.seq >= page.head) yield* tellHead(reader, page, beyond)
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    close(reader)
    share.close()
    place.leave()
  }
}

/** A follower and its position. */
type Reader = Start & {
  readonly share: BudgetShare
  seq: number
  ended: Cursor['ended']
  open: Cursor['open']
  erased: Cursor['erased']
  watched: Watched | undefined
  /** The last turn that has ended, while its agent may still be working. */
  halting: string | undefined
  /** The last end that was sent. */
  shown: string
}
/** A page without its items. */
type Standpoint = Omit<LogPage, 'items' | 'bytes'>
type Watched = { readonly watch: Watch; version: number; shown: string }

function told({ seq, ended, open, erased }: Reader, frame: Nameless): ToldFrame {
  return { frame, at: { seq, ended, open, erased } }
}

/** Sends nothing more about the open turn. */
function close(reader: Reader): void {
  reader.watched?.watch.leave()
  reader.watched = reader.open = undefined
}

/** Undefined: the session does not exist any more, or was erased. */
async function* tellLog(reader: Reader): AsyncGenerator<ToldFrame, Standpoint | undefined> {
  const page = await readPage(reader)
  if (!page) return undefined
  const { head, epoch, turn, version, eraseCount } = page
  reader.erased = Math.min(reader.erased ?? eraseCount, eraseCount) // a restored backup may have fewer
  yield* tellPage(reader, page)
  reader.share.done()
  return { head, epoch, turn, version, eraseCount }
}

/** Reads as much as there is room for. If one message needs more, gives everything back and waits until that much is free. */
async function readPage(reader: Reader): Promise<LogPage | undefined> {
  const room = Math.max(PAGE.leastBytes, Math.min(PAGE.mostBytes, reader.budget.fair() / COPIES))
  const maxBytes = Math.floor(room / 2)
  let page: LogPage | number | undefined = room
  while (typeof page === 'number') page = await readWithin(reader, { maxBytes, room: page })
  return page
}

type Room = { readonly maxBytes: number; readonly room: number }

/** Returns a number if the page needs that many bytes of room. A page ends with the message that reaches or exceeds
 *  `maxBytes`. */
async function readWithin(
  { read, key, signal, share, seq, followBytes }: Reader,
  { maxBytes, room }: Room,
): Promise<LogPage | number | undefined> {
  await share.take(Math.max(COPIES * room, followBytes / READS), signal)
  const page = await read(key, { after: seq, limit: PAGE.limit, maxBytes })
  const bytes = page?.bytes ?? 0
  share.keep(COPIES * bytes)
  return bytes > room ? bytes : page
}

function* tellPage(reader: Reader, page: LogPage): Generator<ToldFrame> {
  if (reader.seq > page.head) {
    const from = reader.seq + 1
    close(reader)
    reader.seq = 0
    reader.ended = reader.erased = undefined
    yield told(reader, { type: 'gap', reason: 'diverged', from, to: 0 })
    return
  }
  const { items, head } = page
  mustBeDense(page, reader.seq)
  reader.seq = items.at(-1)?.seq ?? reader.seq
  if (items.length > 0) yield told(reader, { type: 'messages', items, head })
}

/** Sends everything at the head until the session moves. */
async function* tellHead(reader: Reader, page: Standpoint, beyond: Beyond): AsyncGenerator<ToldFrame> {
  yield* tellErased(reader, page)
  yield* tellEnds(reader, page)
  if (page.turn !== null) yield* tellOpen(reader, { ...page, turn: page.turn }, beyond)
  else if (reader.halting === undefined) await beyond(standingOf(page), reader.signal)
  else await untilHalted(reader, { ...page, turn: reader.halting }, beyond)
}

/** The reader has every message up to the head, so it needs every batch. */
async function* tellErased(reader: Reader, { eraseCount: to }: Standpoint): AsyncGenerator<ToldFrame> {
  while (reader.erased! < to) {
    const { seqs, upto } = await reader.readErased(reader.key, { after: reader.erased!, to })
    reader.erased = upto
    if (seqs.length > 0) yield told(reader, { type: 'erased', seqs })
  }
}

/** The messages that these turns wrote were sent before. */
async function* tellEnds(reader: Reader, page: Standpoint): AsyncGenerator<ToldFrame> {
  const to = endedEpoch(page)
  const { ended: after = to } = reader
  if (after !== to) close(reader)
  const turns =
    after < to ? await reader.readEnded(reader.key, { after: Math.max(after, to - MOST_ENDED), to }) : []
  const last = turns.at(-1)
  reader.halting = page.turn === null && last?.halted === false ? parseId('turn', last.id)!.uuid : undefined
  for (const turn of turns) {
    const isOver = reader.halting === undefined || turn !== last
    reader.ended = isOver ? turn.epoch : turn.epoch - 1 // a reader that comes back gets it again
    const shown = JSON.stringify(turn)
    if (shown !== reader.shown) yield told(reader, { type: 'turn', turn })
    reader.shown = shown
  }
  if (reader.halting === undefined) reader.ended = to
}

/** Sends the live turn until the session moves away from this page. */
async function* tellOpen(
  reader: Reader,
  page: Standpoint & { readonly turn: string },
  beyond: Beyond,
): AsyncGenerator<ToldFrame> {
  const { turn } = page
  const watched = (reader.watched ??= watchedBy(reader, turn))
  const { watch } = watched
  const standing = moving(reader, watch, page, beyond)
  try {
    while (!standing.hasMoved()) {
      if (watched.version !== watch.version()) {
        const now = await standingTold(watched)
        if (now === 'ended') return
        if (now) yield told(reader, { type: 'turn', turn: now })
        continue
      }
      const spot = reader.open ?? { attempt: 0, next: 0 }
      const bytes = watch.bytesAt(spot)
      if (bytes === undefined) {
        await watch.changed()
        continue
      }
      await reader.share.take(COPIES * bytes, reader.signal)
      const isAnother = standing.hasMoved() || watched.version !== watch.version() // it may have changed during the wait
      const taken = isAnother ? undefined : watch.take(spot, bytes)
      reader.share.keep(taken ? COPIES * bytes : 0)
      if (taken) {
        reader.open = { attempt: taken.attempt, next: taken.index + taken.count }
        yield told(reader, { type: 'chunks', turn: formatId('turn', reader.cell, turn), ...taken })
      }
      reader.share.done()
    }
  } finally {
    standing.leave()
  }
}

/** Returns when the turn has halted, or the session has moved. */
async function untilHalted(
  reader: Reader,
  page: Standpoint & { readonly turn: string },
  beyond: Beyond,
): Promise<void> {
  const { watch } = (reader.watched ??= watchedBy(reader, page.turn))
  const standing = moving(reader, watch, page, beyond)
  try {
    for (let version = -1; !standing.hasMoved();) {
      if (version === watch.version()) await watch.changed()
      else {
        version = watch.version()
        const turn = await watch.turn()
        if (turn && turn.endedAt !== null && turn.halted !== false) return
      }
    }
  } finally {
    standing.leave()
  }
}

/** Wakes the turn's watcher when the session moves away from this page. */
function moving({ signal }: Reader, watch: Watch, page: Standpoint, beyond: Beyond) {
  const left = new AbortController()
  let hasMoved = false
  void beyond(standingOf(page), AbortSignal.any([signal, left.signal])).then(() => {
    hasMoved = true
    watch.wake()
  })
  return { hasMoved: () => hasMoved, leave: () => left.abort() }
}

function watchedBy({ watch, key }: Reader, turn: string): Watched {
  return { watch: watch({ tenant: key.tenant, turn }), version: -1, shown: '' }
}

/** The turn, if it has changed since it was last sent. */
async function standingTold(watched: Watched): Promise<Turn | 'ended' | undefined> {
  watched.version = watched.watch.version()
  const turn = await watched.watch.turn()
  if (!turn) throw new Bug('The live turn of a session is not there')
  if (turn.endedAt !== null) return 'ended'
  const shown = JSON.stringify(turn)
  if (shown === watched.shown) return undefined
  watched.shown = shown
  return turn
}

function standingOf({ head, version, ...conversation }: Standpoint): Progress {
  return { head, version, phase: phaseOf(conversation) }
}

function mustBeDense({ items, head }: LogPage, last: number): void {
  const hole = items.findIndex(({ seq }, index) => seq !== last + 1 + index)
  if (hole >= 0 || (items.length === 0 && head > last))
    throw new Bug(`Seq ${last + 1 + Math.max(0, hole)} is not in the log`)
}
