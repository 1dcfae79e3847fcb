// A session's events, one after the other, from whichever pod answers. A stream that ends, is lost, or says nothing for 40 s
// (a pod says something every 20 s) is asked for again behind the last event that was taken: after a time drawn from a range
// that doubles, and at once when the device wakes up. A refusal ends it.
//
//   connection   connecting ──▶ live ◀──▶ stale (lost a moment ago) ──▶ offline (for 5 s) ──▶ live
//                any ──▶ refused, for good
import { backoffMs, type Clock, type Random } from './clock.ts'
import { createEventParser, type ServerEvent } from './event-parser.ts'
import { isRefusal, unavailable, type FleetlineError } from './failure.ts'
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
  const { http, clock, random, path, take, onConnection } = deps
  const [nap, link] = [napOf(clock), linkOf(deps)]
  let [lastId, heardMs, cut, isHasty]: [string | undefined, number, AbortController, boolean] = [
    undefined,
    0,
    new AbortController(),
    false,
  ]

  const takeAll = (events: readonly ServerEvent[]) => {
    for (const { id, data } of events) {
      const isTaken = take(data)
      lastId = isTaken ? (id ?? lastId) : undefined
      if (!isTaken) throw unavailable('Something was missed.')
    }
  }
  const read = async (signal: AbortSignal) => {
    const body = await http.events(path(), lastId, signal)
    link.live()
    const [reader, parser] = [body.getReader(), createEventParser()]
    try {
      for (;;) {
        heardMs = clock.now()
        const { done, value } = await reader.read()
        if (done) return
        takeAll(parser.push(value))
      }
    } finally {
      reader.cancel().catch(() => undefined) // it was lost already
    }
  }
  const cutSilent = async (signal: AbortSignal) => {
    const leftMs = () => heardMs + SILENCE_MS - clock.now()
    try {
      while (leftMs() > 0) await clock.sleep(leftMs(), signal)
      cut.abort(unavailable('Nothing was heard for 40 s.'))
    } catch {
      // it is over
    }
  }
  /** Until it is over: true if it will be refused the next time, too. */
  const follow = async (signal: AbortSignal): Promise<boolean> => {
    cut = new AbortController()
    heardMs = clock.now()
    const either = AbortSignal.any([signal, cut.signal])
    void cutSilent(either)
    try {
      await read(either)
    } catch (error) {
      if (!isRefusal(error)) return false
      onConnection('refused', error)
      return true
    } finally {
      cut.abort()
    }
    return false
  }
  return {
    run: async (signal) => {
      for (let failures = 0; ;) {
        const startMs = clock.now()
        isHasty = false
        const isRefused = await follow(signal)
        if (isRefused || signal.aborted) return link.end()
        link.lost()
        failures = clock.now() - startMs >= STEADY_MS ? 0 : failures + 1
        if (!isHasty) await nap.sleep(backoffMs(failures, random), signal)
      }
    },
    wake: () => {
      nap.wake()
      if (clock.now() - heardMs <= DOUBT_MS) return
      isHasty = true
      cut.abort()
    },
  }
}

/** Tells each change, and when it has been lost for 5 s. */
function linkOf({ clock, onConnection }: Deps) {
  let [now, found]: [Connection, AbortController] = ['connecting', new AbortController()]
  const be = (next: Connection) => {
    if (next !== now) onConnection((now = next))
  }
  const seek = () => {
    found = new AbortController()
    clock.sleep(OFFLINE_MS, found.signal).then(
      () => be('offline'),
      () => undefined, // found
    )
  }
  seek()
  return {
    live: () => {
      found.abort()
      be('live')
    },
    lost: () => {
      if (now !== 'live') return
      be('stale')
      seek()
    },
    end: () => found.abort(),
  }
}
