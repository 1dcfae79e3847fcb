// What agents are saying right now, on this pod. If a turn runs here, its readers here get each chunk at once. For readers on
// other pods, one statement per tick writes all streams of this pod. One more statement per tick reads all turns that are
// watched here and run elsewhere. Guarantees:
//   D4  a reader gets the chunks of one attempt in order, without a gap; a later attempt starts again
//   E1  if PostgreSQL rejects an attempt's chunks, the attempt is told so and writes no more
//   E8  the same holds if a turn is stopped while its agent is silent: a hint makes the next tick ask PostgreSQL, and so does
//       each poll
//
//   a turn that is watched here      its chunks come from
//   runs here                        its stream, at once
//   runs elsewhere                   the table, each tick
//   waits, has ended or halts        nowhere; each tick checks, and tells watchers when that has changed
//   runs elsewhere, and PostgreSQL   nowhere until its next attempt: what it said before is lost, and readers get the final
//   has crashed meanwhile            message only
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

/** The stream of one attempt. */
export type Stream = {
  /** Resolves when there is room for the next chunk. Undefined: there is room now. */
  readonly push: (chunk: Chunk) => Promise<void> | undefined
  /** Nothing more is written, except for chunks that are already being sent. */
  readonly close: () => void
}

/** What one reader sees of a turn. */
export type Watch = Pick<OpenMessage, 'bytesAt' | 'take'> & {
  /** Changes when another pod may run the turn, or none any more. */
  readonly version: () => number
  /** The turn at this version or later. */
  readonly turn: () => Promise<Turn | undefined>
  /** Resolves when the version or the message changes next, or at `wake`. */
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

/** The time from one flush to the next, and from one read to the next. */
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

/** The topic of hints that a turn was stopped. They are for the pod that runs the turn. */
export function stopTopic(turn: string): string {
  return `c:${turn}`
}

/** Repeats the work each tick, with growing pauses while PostgreSQL does not answer. */
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

/** The turns that are streamed or watched on this pod, by (tenant, turn). */
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
    /** The turns that are watched here and run elsewhere. */
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
    /** One read serves all watchers. */
    turn: () => {
      if (looked?.version !== version) {
        looked = { version, turn: readTurn(key) }
        looked.turn.catch(() => (looked = undefined)) // callers that await it get the error
      }
      return looked.turn
    },
    isDistant: () => source === undefined && watchers.size > 0,
    /** The turn runs here, unless a later attempt has started already. */
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
    /** Takes what the tables say. Undefined: there is no such turn. */
    take: (read: ChunksRead | undefined) => {
      if (source !== undefined) return
      const { standing: now, isHalting, batches } = read ?? NOTHING
      if (now) begin(now.attempt)
      if (now?.attempt === message.attempt())
        isBlind ||= !batches.every((batch) =>
          message.add(pieceOf(batch, JSON.parse(batch.body) as Chunk[], batch.body)),
        )
      stand(JSON.stringify([now, isHalting, message.end() > 0])) // from its first chunk on, a turn says what it answers
      if (batches.length > 0) wake()
    },
  }
}

async function readAll({ read }: Chunks, distant: readonly Entry[]): Promise<void> {
  if (distant.length === 0) return
  const found = await read(distant.map((entry) => entry.wanted()))
  distant.forEach((entry, place) => entry.take(found.get(place)))
}
