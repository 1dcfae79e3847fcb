// A session's events, one after the other, from whichever pod answers. A stream that ends, is lost, or says nothing for 40 s
// (a pod says something every 20 s) is asked for again behind the last event that was taken: after a time drawn from a range
// that doubles, and at once when the device wakes up. A refusal by a pod ends it.
//
//   connection   connecting ──▶ live ◀──▶ stale (lost a moment ago) ──▶ offline (for 5 s) ──▶ live
//                any ──▶ refused, for good
import { backoffMs, type Clock, type Random } from './clock.ts'
import { createEventParser, type ServerEvent } from './event-parser.ts'
import { isRefusal, retryAfterMs, STRANGER, unavailable, type FleetlineError } from './failure.ts'
import type { Http } from './http.ts'
import { napOf } from './nap.ts'

export type Connection = 'connecting' | 'live' | 'stale' | 'offline' | 'refused'

type Deps = {
  readonly http: Pick<Http, 'events'>
  readonly clock: Clock
  readonly random: Random
  /** Where to begin if no event was taken; asked for each time. */
  readonly path: () => string
  /** False: something is missing. The stream begins at `path` again. */
  readonly take: (data: string) => boolean
  readonly onConnection: (connection: Connection, refusal?: FleetlineError) => void
}
export type Stream = {
  /** Ends when the signal is aborted, or when it is refused; never rejects. */
  readonly run: (signal: AbortSignal) => Promise<void>
  /** The device is back: what may be dead is asked for again, now. */
  readonly wake: () => void
}

const SILENCE_MS = 40_000
const DOUBT_MS = 25_000 // of one that woke up
const OFFLINE_MS = 5_000
const STEADY_MS = 5_000

export function createStream(deps: Deps): Stream {
  const { clock, random, onConnection } = deps
  const [nap, standing] = [napOf(clock), standingOf(deps)]
  const place: Place = { lastId: undefined }
  let watch: Watch | undefined
  let isAwaited = false // somebody has woken up, and waits

  return {
    run: async (signal) => {
      for (let failures = 0; ;) {
        isAwaited = false
        watch = watchOf(clock, signal)
        const { error, livedMs } = await follow(deps, { place, watch, onOpen: standing.live })
        watch.end()
        if (signal.aborted) return standing.end()
        if (isRefusal(error) && error.code !== STRANGER) {
          standing.end()
          return onConnection('refused', error)
        }
        standing.lost()
        failures = livedMs >= STEADY_MS ? 0 : failures + 1
        const pauseMs = Math.max(backoffMs(failures, random), retryAfterMs(error))
        if (!isAwaited) await nap.sleep(pauseMs, signal)
      }
    },
    wake: () => {
      nap.wake()
      if (standing.isLive() && !watch?.isDoubtful()) return
      isAwaited = true
      watch?.cut()
    },
  }
}

/** The id of the last event that was taken; undefined: it is to begin anew. */
type Place = { lastId: string | undefined }
type Opening = { readonly place: Place; readonly watch: Watch; readonly onOpen: () => void }

/** One connection, until it is over. */
async function follow(
  { http, clock, path, take }: Deps,
  { place, watch, onOpen }: Opening,
): Promise<{ readonly error?: unknown; readonly livedMs: number }> {
  const parser = createEventParser()
  let sinceMs: number | undefined
  const livedMs = () => (sinceMs === undefined ? 0 : clock.now() - sinceMs)
  const takeOne = ({ id, data }: ServerEvent) => {
    if (watch.signal.aborted) return
    const isTaken = take(data)
    place.lastId = isTaken ? (id ?? place.lastId) : undefined
    if (!isTaken) throw unavailable('Something was missed.')
  }
  try {
    const body = await http.events(path(), place.lastId, watch.signal)
    sinceMs = clock.now()
    onOpen()
    await eachPiece(body, (bytes) => {
      watch.heard()
      parser.push(bytes).forEach(takeOne)
    })
    return { livedMs: livedMs() }
  } catch (error) {
    return { error, livedMs: livedMs() }
  }
}

async function eachPiece(body: ReadableStream<Uint8Array>, take: (bytes: Uint8Array) => void): Promise<void> {
  const reader = body.getReader()
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) take(value!)
  } finally {
    reader.cancel().catch(() => undefined) // it was lost already
  }
}

type Watch = ReturnType<typeof watchOf>

/** Cuts a connection that is silent. */
function watchOf(clock: Clock, signal: AbortSignal) {
  const cut = new AbortController()
  let heardMs = clock.now()
  const ageMs = () => {
    const ms = clock.now() - heardMs
    return ms < 0 ? Number.POSITIVE_INFINITY : ms // the clock was set back
  }
  const own = AbortSignal.any([signal, cut.signal])
  const look = async () => {
    while (ageMs() < SILENCE_MS) await clock.sleep(SILENCE_MS - ageMs(), own)
    cut.abort(unavailable('Nothing was heard for 40 s.'))
  }
  look().catch(() => undefined) // it is over
  return {
    signal: own,
    heard: () => void (heardMs = clock.now()),
    isDoubtful: () => ageMs() > DOUBT_MS,
    cut: () => cut.abort(unavailable('The device woke up.')),
    end: () => cut.abort(),
  }
}

/** Tells each change, and when it has been lost for 5 s. */
function standingOf({ clock, onConnection }: Deps) {
  let [now, found]: [Connection, AbortController] = ['connecting', new AbortController()]
  const become = (next: Connection) => {
    if (next !== now) onConnection((now = next))
  }
  const seek = () => {
    found = new AbortController()
    clock.sleep(OFFLINE_MS, found.signal).then(
      () => become('offline'),
      () => undefined, // found
    )
  }
  seek()
  return {
    isLive: () => now === 'live',
    live: () => {
      found.abort()
      become('live')
    },
    lost: () => {
      if (now !== 'live') return
      become('stale')
      seek()
    },
    end: () => found.abort(),
  }
}
