// Follows a session's events, from whichever pod answers. If the stream ends, is lost, or is silent for 40 s (a pod sends
// something every 20 s), it is opened again after the last event that was taken. Each retry waits for a random time from a
// range that doubles; when the device wakes up, there is no wait. When there is a new token, the stream is opened again at once,
// and stays live meanwhile. A refusal by a pod ends it.
//
//   connection   connecting ──▶ live ◀──▶ stale (just lost) ──▶ offline (for 5 s) ──▶ live
//                any ──▶ refused, finally
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
  /** Where to begin if no event was taken. Called each time. */
  readonly path: () => string
  /** Returns false if something is missing. Then the stream begins at `path` again. */
  readonly take: (data: string) => boolean
  readonly onConnection: (connection: Connection, refusal?: FleetlineError) => void
}
export type Stream = {
  /** Ends when the signal is aborted or the stream is refused. Never rejects. */
  readonly run: (signal: AbortSignal) => Promise<void>
  /** Call it when the device is back: a connection that may be dead is opened again at once. */
  readonly wake: () => void
}

const SILENCE_MS = 40_000
const DOUBT_MS = 25_000 // after a wake-up, a connection that was silent for longer is replaced
const OFFLINE_MS = 5_000
const STEADY_MS = 5_000
const RENEWED = unavailable('There is a new token.')

export function createStream(deps: Deps): Stream {
  const { clock, random, onConnection } = deps
  const [nap, standing] = [napOf(clock), standingOf(deps)]
  const place: Place = { lastId: undefined }
  let watch: Watch | undefined
  let isAwaited = false // the device woke up, and a person waits

  return {
    run: async (signal) => {
      for (let failures = 0; ;) {
        isAwaited = false
        watch = watchOf(clock, signal)
        const { error, livedMs } = await follow(deps, { place, watch, onOpen: standing.live })
        watch.end()
        if (signal.aborted) return standing.end()
        if (watch.signal.reason === RENEWED) continue
        const isStrange = place.lastId !== undefined && isRefusal(error) && error.code === 'invalid'
        if (isStrange) place.lastId = undefined // a pod of another release cannot read the position: begin again
        if (isRefusal(error) && error.code !== STRANGER && !isStrange) {
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

/** The id of the last event that was taken; undefined to begin again. */
type Place = { lastId: string | undefined }
type Opening = { readonly place: Place; readonly watch: Watch; readonly onOpen: () => void }

/** Follows one connection until it is over. */
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
    const { body, renewed } = await http.events(path(), place.lastId, watch.signal)
    renewed(watch.signal).then(watch.renew, () => undefined) // the connection was over before
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
    reader.cancel().catch(() => undefined) // fails if the stream was already lost
  }
}

type Watch = ReturnType<typeof watchOf>

/** Cuts a silent connection. */
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
  look().catch(() => undefined) // aborted: the connection is over
  return {
    signal: own,
    heard: () => void (heardMs = clock.now()),
    isDoubtful: () => ageMs() > DOUBT_MS,
    cut: () => cut.abort(unavailable('The device woke up.')),
    renew: () => cut.abort(RENEWED),
    end: () => cut.abort(),
  }
}

/** Reports each change, and that the connection has been lost for 5 s. */
function standingOf({ clock, onConnection }: Deps) {
  let [now, found]: [Connection, AbortController] = ['connecting', new AbortController()]
  const become = (next: Connection) => {
    if (next !== now) onConnection((now = next))
  }
  const seek = () => {
    found = new AbortController()
    clock.sleep(OFFLINE_MS, found.signal).then(
      () => become('offline'),
      () => undefined, // live again, or ended
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
