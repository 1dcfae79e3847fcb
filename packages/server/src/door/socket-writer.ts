// What one socket sends. Answers go out at once; frames of sessions and inboxes wait until there is room. A socket is full if 256 KiB
// wait for its client, or if a frame was not taken for a second. It then reads no more commands, whose answers would add to what waits,
// until less than 64 KiB wait. So the memory of a client that reads slowly is bounded, whatever it sends. A client that takes no byte for
// `stallMs` has stalled. Node's timer would not notice that: every byte that a client sends restarts it, even if nobody reads it.
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import type { Clock } from '../lib/clock.ts'

export type SocketWriter = {
  /** Sends the frame now. */
  readonly now: (frame: object) => void
  /** Resolves when there is room, or the signal is aborted. */
  readonly room: (signal: AbortSignal) => Promise<void>
  /** Sends the text. Resolves when the connection has taken it, or the signal is aborted. */
  readonly take: (text: string, signal: AbortSignal) => Promise<void>
  readonly isFull: () => boolean
}
type Deps = {
  readonly ws: Pick<WebSocket, 'send' | 'bufferedAmount'>
  readonly raw: Pick<Socket, 'bytesWritten' | 'writableLength'>
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly stallMs: number
  /** Called when the socket becomes full, and when it has room again. */
  readonly onFull: (isFull: boolean) => void
  readonly onStalled: () => void
}

const FULL_BYTES = 256 * 1024
const ROOM_BYTES = 64 * 1024
const SLOW_MS = 1_000
const TAKEN = new Error('The connection has taken the frame')

export function createSocketWriter(deps: Deps): SocketWriter {
  const { ws, raw, clock, signal: over, stallMs, onFull, onStalled } = deps
  let [isFull, waiting] = [false, Promise.withResolvers<void>()]
  const fill = () => {
    if (isFull || over.aborted) return
    isFull = true
    waiting = Promise.withResolvers()
    onFull(true)
    const hasRoom = new AbortController()
    void waiting.promise.then(() => hasRoom.abort())
    watch(AbortSignal.any([over, hasRoom.signal])).catch(() => undefined) // there is room, or the socket is over
  }
  const watch = async (signal: AbortSignal) => {
    for (let before: string | undefined; ;) {
      const taken = takenFrom(raw)
      if (taken === before) return onStalled()
      before = taken
      await clock.sleep(stallMs, signal)
    }
  }
  const drain = () => {
    if (!isFull || ws.bufferedAmount >= ROOM_BYTES) return
    isFull = false
    waiting.resolve()
    onFull(false)
  }
  /** Resolves when the connection has taken the text; undefined if it did so at once. So most frames cost no timer. */
  const write = (text: string): Promise<void> | undefined => {
    let isTaken = false
    let onTaken = () => undefined as void
    ws.send(text, () => {
      isTaken = true
      drain()
      onTaken()
    })
    if (ws.bufferedAmount === 0) return undefined
    if (ws.bufferedAmount > FULL_BYTES) fill()
    const taken = new AbortController()
    const onLate = () => isTaken || fill() // once the frame is taken, nothing would make room again
    clock.sleep(SLOW_MS, taken.signal).then(onLate, () => undefined) // it was taken
    return new Promise((resolve) => {
      onTaken = () => {
        taken.abort(TAKEN)
        resolve()
      }
    })
  }
  return {
    isFull: () => isFull,
    now: (frame) => void write(JSON.stringify(frame)),
    room: async (signal) => {
      while (isFull && !signal.aborted) await orAborted(waiting.promise, signal)
    },
    take: async (text, signal) => {
      const taken = write(text)
      if (taken) await orAborted(taken, signal)
    },
  }
}

/** Changes whenever the client takes a byte. Node does not document the size of its queue, but its own timer reads it, too. */
function takenFrom(raw: Deps['raw']): string {
  const { _handle: handle } = raw as { readonly _handle?: { readonly writeQueueSize?: number } | null }
  return `${raw.bytesWritten - raw.writableLength} ${handle?.writeQueueSize ?? 0}`
}

/** Resolves when the promise does, or when the signal is aborted. */
export function orAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const onAbort = () => resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    void promise.then(() => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
  })
}
