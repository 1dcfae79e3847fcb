// Following a session: what is stored, then what comes, without a seam. A follower reads page after page from where it
// is; at the head it is told the live turn, and waits for the feed. It holds one page at a time and asks for the next when
// the one before was taken, so that its speed is its own. Guarantees:
//   D1  behind seq k it tells k+1, k+2, … and nothing else; a hole in the log is a bug, and ends it loudly
//   D3  one who is at a seq beyond the head, from the start or because the log was cut, is told so, and goes on from
//       the beginning
//   D4  of turns that were live since it came, and of those it has asked for, it is told how they ended, behind the messages
//       that they have written, also if it was away meanwhile; of many, the last ones. Of the last one, if it was stopped,
//       also that it has halted
//
//   at the head                               is told
//   turns have ended that it was not told     how they ended
//   the last one was stopped, and halts       that it has halted, unless a turn starts before
//   a turn is live                            who runs it, whenever that changes; its chunks, from where the reader has them
import {
  formatId,
  parseId,
  type ChunksFrame,
  type GapFrame,
  type MessagesFrame,
  type Turn,
  type TurnFrame,
} from '@fleetline/protocol'
import { Bug, Retry } from '../errors.ts'
import { phaseOf, type Beyond, type Feed, type Place, type Standing } from './feed.ts'
import type { Live, Watch } from './live.ts'
import type { Spot } from './open-message.ts'
import type { SessionKey } from './place.ts'
import type { LogPage, Replay } from './replay.ts'
import type { TurnView } from './turn-view.ts'

/** A frame before it bears the session's name. */
export type Nameless =
  | Omit<MessagesFrame, 'session'>
  | Omit<GapFrame, 'session'>
  | Omit<TurnFrame, 'session'>
  | Omit<ChunksFrame, 'session'>

/** Where a reader is. */
export type Cursor = {
  readonly seq: number
  /** The last epoch whose end it need not be told. Undefined: that of the last turn that has ended when it comes. */
  readonly ended?: number | undefined
  /** How much it has of what the next epoch says. */
  readonly open?: Spot | undefined
}
export type Told = { readonly frame: Nameless; /** Once it has the frame. */ readonly at: Cursor }

/** Ends when the signal is aborted. It holds a place among the followers, which it gives back when it is asked and ends. */
export type Following = (signal: AbortSignal) => AsyncGenerator<Told, void, undefined>

export type Follow = {
  /** Undefined: there is no such session; nobody is registered before that is known (S4). */
  readonly follow: (key: SessionKey, from: Cursor) => Promise<Following | undefined>
}

type Deps = Replay &
  Pick<Feed, 'reserve'> &
  Pick<Live, 'watch'> &
  Pick<TurnView, 'readEnded'> & { readonly cell: number }

// One page is one frame: what a reader takes before it has a new place to resume from.
const PAGE = { limit: 100, maxBytes: 256 * 1024 }
const MOST_ENDED = 20

export function createFollow(deps: Deps): Follow {
  return {
    follow: async (key, from) => {
      const place = deps.reserve()
      if (!place) throw new Retry('unavailable', 'This pod has as many followers as it takes')
      let first: LogPage | undefined
      try {
        first = await deps.read(key, { after: from.seq, ...PAGE })
      } finally {
        if (!first) place.leave()
      }
      return first && ((signal) => tell({ ...deps, place }, key, { from, first, signal }))
    },
  }
}

type Start = { readonly from: Cursor; readonly first: LogPage; readonly signal: AbortSignal }

async function* tell(
  deps: Deps & { readonly place: Place },
  key: SessionKey,
  { from, first, signal }: Start,
): ReturnType<Following> {
  const { seq, ended, open } = from
  const reader: Reader = {
    ...deps,
    key,
    signal,
    seq,
    ended,
    open,
    watched: undefined,
    halting: undefined,
    shown: '',
  }
  try {
    const beyond = deps.place.join(key)
    for (let page: LogPage | undefined = first; page && !signal.aborted;) {
      yield* tellLog(reader, page)
      if (reader.seq >= page.head) {
        yield* tellEnds(reader, page)
        if (page.turn !== null) yield* tellOpen(reader, { ...page, turn: page.turn }, beyond)
        else if (reader.halting === undefined) await beyond(standingOf(page), signal)
        else await untilHalted(reader, { ...page, turn: reader.halting }, beyond)
      }
      if (signal.aborted) return
      page = await deps.read(key, { after: reader.seq, ...PAGE })
    }
  } finally {
    close(reader)
    deps.place.leave()
  }
}

/** One who is told, and where it is by now. */
type Reader = Pick<Deps, 'watch' | 'readEnded' | 'cell'> & {
  readonly key: SessionKey
  readonly signal: AbortSignal
  seq: number
  ended: Cursor['ended']
  open: Cursor['open']
  watched: Watched | undefined
  /** The last turn that has ended, while its agent may still be at work. */
  halting: string | undefined
  /** The last end that it was told. */
  shown: string
}
type Watched = { readonly watch: Watch; version: number; shown: string }

function told({ seq, ended, open }: Reader, frame: Nameless): Told {
  return { frame, at: { seq, ended, open } }
}

/** Of the turn that is open for it, nothing more is told. */
function close(reader: Reader): void {
  reader.watched?.watch.leave()
  reader.watched = reader.open = undefined
}

function* tellLog(reader: Reader, page: LogPage): Generator<Told> {
  if (reader.seq > page.head) {
    const from = reader.seq + 1
    close(reader)
    reader.seq = 0
    reader.ended = undefined
    yield told(reader, { type: 'gap', reason: 'diverged', from, to: 0 })
    return
  }
  const { items, head } = page
  mustBeDense(page, reader.seq)
  reader.seq = items.at(-1)?.seq ?? reader.seq
  if (items.length > 0) yield told(reader, { type: 'messages', items, head })
}

/** What these turns wrote is in the log, and was told before. */
async function* tellEnds(reader: Reader, page: LogPage): AsyncGenerator<Told> {
  const to = page.turn === null ? page.epoch : page.epoch - 1
  const { ended: after = to } = reader
  if (after !== to) close(reader)
  const turns =
    after < to ? await reader.readEnded(reader.key, { after: Math.max(after, to - MOST_ENDED), to }) : []
  const last = turns.at(-1)
  reader.halting = page.turn === null && last?.halted === false ? parseId('turn', last.id)!.uuid : undefined
  for (const turn of turns) {
    const isOver = reader.halting === undefined || turn !== last
    reader.ended = isOver ? turn.epoch : turn.epoch - 1 // who comes back is told again
    const shown = JSON.stringify(turn)
    if (shown !== reader.shown) yield told(reader, { type: 'turn', turn })
    reader.shown = shown
  }
  if (reader.halting === undefined) reader.ended = to
}

/** Until the session stands elsewhere than on this page. */
async function* tellOpen(
  reader: Reader,
  page: LogPage & { readonly turn: string },
  beyond: Beyond,
): AsyncGenerator<Told> {
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
      const taken = watch.take(reader.open ?? { attempt: 0, next: 0 })
      if (taken) {
        reader.open = { attempt: taken.attempt, next: taken.index + taken.count }
        yield told(reader, { type: 'chunks', turn: formatId('turn', reader.cell, turn), ...taken })
      } else await watch.changed()
    }
  } finally {
    standing.leave()
  }
}

/** Or until the session stands elsewhere. */
async function untilHalted(
  reader: Reader,
  page: LogPage & { readonly turn: string },
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

/** Wakes who watches the turn when the session stands elsewhere than on the page. */
function moving({ signal }: Reader, watch: Watch, page: LogPage, beyond: Beyond) {
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

/** The turn, if it stands as it was not told before. */
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

function standingOf({ head, ...conversation }: LogPage): Standing {
  return { head, phase: phaseOf(conversation) }
}

function mustBeDense({ items, head }: LogPage, last: number): void {
  const hole = items.findIndex(({ seq }, index) => seq !== last + 1 + index)
  if (hole >= 0 || (items.length === 0 && head > last))
    throw new Bug(`Seq ${last + 1 + Math.max(0, hole)} is not in the log`)
}
