// What agents say before it is in the log, on this pod. Readers here of a turn that runs here have each chunk at once; for
// readers elsewhere all streams are written by one statement a tick, and all turns that are watched here and run elsewhere
// are read by one. Guarantees:
//   D4  a reader has the chunks of one attempt in their order, without a hole; a later attempt begins anew
//   E1  an attempt of which PostgreSQL refuses chunks is told so, and writes no more
//   E8  so is one whose turn was stopped while its agent is silent: a hint has PostgreSQL asked, and so does each poll
//
//   a turn that is watched here      its chunks come from
//   runs here                        its stream, at once
//   runs elsewhere                   the table, each tick
//   waits, has ended or halts        nowhere; each tick looks, and tells who watches when that has changed
//   runs elsewhere, and PostgreSQL   nowhere until its next attempt: what it said before is lost, and the final message is
//   has crashed meanwhile            what comes
import type { Chunk, Turn } from '@fleetline/protocol'
import type { Config } from '../config.ts'
import { backoffMs } from '../lib/backoff.ts'
import type { Clock } from '../lib/clock.ts'
import { every } from '../lib/every.ts'
import { compose, type Service } from '../lib/lifecycle.ts'
import type { Random } from '../lib/random.ts'
import type { Transactions } from '../store/database.ts'
import type { Hints } from '../store/hints.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { createChunks, type Chunks, type ChunksRead, type TurnKey } from './chunks.ts'
import {
  createOpenMessages,
  pieceOf,
  type OpenMessage,
  type OpenMessages,
  type Piece,
} from './open-message.ts'
import { createStreams, type OwnStream, type Streaming } from './streams.ts'
import type { TurnView } from './turn-view.ts'

/** Of one attempt. */
export type Stream = {
  /** Resolves when there is room for the next; undefined: there is. */
  readonly push: (chunk: Chunk) => Promise<void> | undefined
  /** Nothing more of it is written, but for what is on its way. */
  readonly close: () => void
}

/** Of one reader. */
export type Watch = Pick<OpenMessage, 'bytesAt' | 'take'> & {
  /** Another number: who runs the turn may be another, or nobody any more. */
  readonly version: () => number
  /** As it stood at this version, or later. */
  readonly turn: () => Promise<Turn | undefined>
  /** Resolves at the next change of either, or when it is woken. */
  readonly changed: () => Promise<void>
  readonly wake: () => void
  readonly leave: () => void
}

export type Live = {
  readonly openStream: (of: Streaming) => Stream
  readonly watch: (turn: TurnKey) => Watch
}

type Deps = Pick<TurnView, 'readTurn'> &
  Pick<Config, 'openTurnBytes' | 'openBytes'> & {
    readonly database: Transactions
    readonly hints: Pick<Hints, 'listen'>
    readonly clock: Clock
    readonly random: Random
    readonly metrics: Metrics
    readonly log: Log
  }

/** Of the statements. */
export const TICK_MS = 50
const AGAIN = { baseMs: TICK_MS, capMs: 2_000 }
const NO_INDEX = 2_147_483_647
const NOTHING: ChunksRead = { standing: null, isHalting: false, batches: [] }

export function createLive(deps: Deps): Live & Service {
  const messages = createOpenMessages(deps)
  const entries = createEntries({ ...deps, ...messages })
  const chunks = createChunks(deps)
  const streams = createStreams({ ...deps, ...chunks })
  deps.metrics.gauge('streams', () => [
    [{ kind: 'written' }, streams.size()],
    [{ kind: 'read' }, entries.distant().length],
  ])
  deps.metrics.gauge('openBytes', () => [
    [{ kind: 'kept' }, messages.bytes()],
    [{ kind: 'unwritten' }, streams.bytes()],
  ])
  const ticks = [
    ticking(deps, 'chunks.flush', streams.flush),
    ticking(deps, 'chunks.read', () => readAll(chunks, entries.distant())),
  ]
  return {
    ...compose('live', ticks),
    openStream: (of) => {
      const entry = entries.enter(of)
      const own = streams.open(of)
      const unlisten = deps.hints.listen(stopTopic(of.turn), own.doubt)
      entry.begin(own, of.attempt)
      return {
        push: (chunk) => {
          entry.add(own, own.push(chunk))
          return own.room()
        },
        close: () => {
          unlisten()
          own.close()
          entry.end(own)
          entries.leave(entry)
        },
      }
    },
    watch: (turn) => {
      const entry = entries.enter(turn)
      let resolveChanged = () => undefined as void
      const wake = () => resolveChanged()
      entry.watchers.add(wake)
      return {
        version: entry.version,
        turn: entry.turn,
        bytesAt: entry.message.bytesAt,
        take: entry.message.take,
        changed: () => new Promise((resolve) => (resolveChanged = resolve)),
        wake,
        leave: () => {
          entry.watchers.delete(wake)
          entries.leave(entry)
        },
      }
    },
  }
}

/** Of hints that the turn was stopped: to the pod that runs it. */
export function stopTopic(turn: string): string {
  return `c:${turn}`
}

/** Again each tick; later and later while PostgreSQL does not answer. */
function ticking({ clock, random, log }: Deps, name: string, work: () => Promise<void>): Service {
  let failures = 0
  return every({ clock, name, everyMs: TICK_MS, onError: () => undefined }, async (signal) => {
    try {
      await work()
      failures = 0
    } catch (error) {
      if (failures === 0) log.warn('chunks do not come through', { service: name, error })
      await clock.sleep(backoffMs(AGAIN, failures, random), signal)
      failures += 1
    }
  })
}

type Entry = ReturnType<typeof createEntry>
type EntryDeps = Pick<TurnView, 'readTurn'> & Pick<OpenMessages, 'open'>

/** The turns that somebody here streams or watches, by (tenant, turn). */
function createEntries(deps: EntryDeps) {
  const entries = new Map<string, { readonly entry: Entry; holders: number }>()
  const nameOf = ({ tenant, turn }: TurnKey) => `${tenant}/${turn}`
  return {
    enter: (key: TurnKey): Entry => {
      const held = entries.get(nameOf(key)) ?? { entry: createEntry(deps, key), holders: 0 }
      entries.set(nameOf(key), held)
      held.holders += 1
      return held.entry
    },
    leave: ({ key }: Entry): void => {
      const held = entries.get(nameOf(key))!
      held.holders -= 1
      if (held.holders > 0) return
      entries.delete(nameOf(key))
      held.entry.message.close()
    },
    /** Those that are watched here, and do not run here. */
    distant: (): Entry[] =>
      Array.from(entries.values(), ({ entry }) => entry).filter((entry) => entry.isDistant()),
  }
}

function createEntry({ readTurn, open }: EntryDeps, { tenant, turn }: TurnKey) {
  const message = open()
  const watchers = new Set<() => void>()
  let [source, version, standing, isBlind]: [OwnStream | undefined, number, string, boolean] = [
    undefined,
    0,
    '',
    false,
  ]
  let looked: { readonly version: number; readonly turn: ReturnType<typeof readTurn> } | undefined
  const key = { tenant, turn }
  const wake = () => watchers.forEach((tell) => tell())
  const begin = (attempt: number) => {
    if (attempt <= message.attempt()) return
    message.begin(attempt)
    isBlind = false
  }
  const stand = (now: string) => {
    if (now === standing) return
    standing = now
    version += 1
    wake()
  }
  return {
    key,
    message,
    watchers,
    version: () => version,
    /** One look for all who watch. */
    turn: () => {
      if (looked?.version !== version) {
        looked = { version, turn: readTurn(key) }
        looked.turn.catch(() => (looked = undefined)) // told to who waits for it
      }
      return looked.turn
    },
    isDistant: () => source === undefined && watchers.size > 0,
    /** It runs here, unless a later attempt runs by now. */
    begin: (own: OwnStream, attempt: number) => {
      if (attempt < message.attempt()) return
      source = own
      begin(attempt)
      stand(`here ${attempt}`)
    },
    add: (own: OwnStream, piece: Piece) => {
      if (source !== own) return
      message.add(piece)
      wake()
    },
    end: (own: OwnStream) => {
      if (source === own) source = undefined
    },
    wanted: () => ({
      ...key,
      attempt: message.attempt(),
      next: isBlind ? NO_INDEX : message.end(),
    }),
    /** What the tables say; undefined: there is no such turn. */
    take: (read: ChunksRead | undefined) => {
      if (source !== undefined) return
      const { standing: now, isHalting, batches } = read ?? NOTHING
      if (now) begin(now.attempt)
      if (now?.attempt === message.attempt())
        isBlind ||= !batches.every((batch) =>
          message.add(pieceOf(batch, JSON.parse(batch.body) as Chunk[], batch.body)),
        )
      stand(JSON.stringify([now, isHalting, message.end() > 0])) // what it answers is known before its first word
      if (batches.length > 0) wake()
    },
  }
}

async function readAll({ read }: Chunks, distant: readonly Entry[]): Promise<void> {
  if (distant.length === 0) return
  const found = await read(distant.map((entry) => entry.wanted()))
  distant.forEach((entry, place) => entry.take(found.get(place)))
}
