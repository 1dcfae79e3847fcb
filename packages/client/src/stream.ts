// Follows a session or an inbox over server-sent events, from whichever pod answers. If the stream ends, is lost, or is silent for 40 s, it
// is opened again after the last event that was taken. Each retry waits for a random time from a range that doubles; when the device
// wakes up, there is no wait. When there is a new token, the stream is opened again at once, and stays live meanwhile. A refusal by a
// pod ends it.
import { backoffMs, type Clock, type Random } from './clock.ts'
import { createEventParser, type ServerEvent } from './event-parser.ts'
import { isRefusal, retryAfterMs, STRANGER, type FleetlineError } from './failure.ts'
import type { Http } from './http.ts'
import type { Followed } from './link.ts'
import { napOf } from './nap.ts'
import type { Standing } from './standing.ts'
import { RENEWED, watchOf, type Watch } from './watch.ts'

/** The position after the last frame that was taken; undefined to begin again. Events and sockets name it alike. */
export type Place = { cursor: string | undefined }

export type StreamDeps = {
  readonly http: Pick<Http, 'open'>
  readonly clock: Clock
  readonly random: Random
  readonly place: Place
  readonly standing: Standing
  /** Called before each opening that has no place. */
  readonly prepare?: (signal: AbortSignal) => Promise<void>
  /** The path of each request. It says where to begin if there is no position. */
  readonly path: () => string
  /** Returns false if something is missing. Then the stream begins at `path` again. */
  readonly take: (frame: Followed) => boolean
  readonly onRefused: (error: FleetlineError) => void
}
export type Stream = {
  /** Ends when the signal is aborted or the stream is refused. Never rejects. */
  readonly run: (signal: AbortSignal) => Promise<void>
  /** Call it when the device is back: a connection that may be dead is opened again at once. */
  readonly wake: () => void
}

const STEADY_MS = 5_000
const EVENTS = 'text/event-stream'
const UNUSABLE = new Error('Something is missing, or these are no events.')

export function createStream(deps: StreamDeps): Stream {
  const { clock, random, place, standing, onRefused } = deps
  const nap = napOf(clock)
  let watch: Watch | undefined
  let isAwaited = false // the device woke up, and a person waits

  return {
    run: async (signal) => {
      for (let failures = 0; !signal.aborted;) {
        isAwaited = false
        watch = watchOf(clock, signal)
        const { error, livedMs } = await follow(deps, watch)
        watch.cut()
        if (signal.aborted) return
        if (watch.signal.reason === RENEWED) continue
        const isStrange = place.cursor !== undefined && isRefusal(error) && error.code === 'invalid'
        if (isStrange) place.cursor = undefined // a pod of another release cannot read the position: begin again
        if (isRefusal(error) && error.code !== STRANGER && !isStrange) return onRefused(error)
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

/** Follows one connection until it is over. */
async function follow(
  { http, clock, place, standing, prepare, path, take }: StreamDeps,
  watch: Watch,
): Promise<{ readonly error?: unknown; readonly livedMs: number }> {
  const parser = createEventParser()
  let sinceMs: number | undefined
  const livedMs = () => (sinceMs === undefined ? 0 : clock.now() - sinceMs)
  const takeOne = ({ id, data }: ServerEvent) => {
    if (watch.signal.aborted) return
    const isTaken = take(JSON.parse(data) as Followed)
    place.cursor = isTaken ? (id ?? place.cursor) : undefined
    if (!isTaken) throw UNUSABLE
  }
  try {
    if (place.cursor === undefined) await prepare?.(watch.signal)
    const headers = { accept: EVENTS, ...(place.cursor !== undefined && { 'last-event-id': place.cursor }) }
    const { answer, renewed } = await http.open(path(), headers, watch.signal)
    const { body } = answer
    if (!body || !answer.headers.get('content-type')?.startsWith(EVENTS)) throw UNUSABLE
    renewed(watch.signal).then(watch.renew, () => undefined) // the connection was over before
    sinceMs = clock.now()
    standing.live()
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
