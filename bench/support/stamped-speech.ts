// What the agents of `bench sockets` say: a chunk in each slot of 50 ms, with its number and the time at which it
// was said.
import { setImmediate as yieldToEventLoop, setTimeout as pause } from 'node:timers/promises'
import { nowMs } from './now.ts'

export const CHUNK_MS = 50

/** Part of the message that an agent answers. */
export type Wanted = {
  readonly round: number
  readonly chunks: number
  /** From 0 to 1: when in a slot of 50 ms its chunks come, so that those of several agents are spread. */
  readonly phase: number
}

/** A chunk that is late is followed by one in the next slot: those in between come later. And chunks come out of no timer: Node runs
 *  timers that are due before it reads sockets, so a busy process would read none. A model's words come from a socket. */
export async function* speakStamped({ round, chunks, phase }: Wanted) {
  yield { type: 'start' }
  yield { type: 'text-start', id: '1' }
  for (let n = 0; n < chunks; n += 1) {
    await pause(Math.ceil(CHUNK_MS - ((nowMs() - phase * CHUNK_MS) % CHUNK_MS))) // a timer drops fractions, and would be early
    await yieldToEventLoop()
    yield { type: 'text-delta', id: '1', delta: `#${round}.${n}@${Math.round(nowMs() * 1_000)};` }
  }
  yield { type: 'text-end', id: '1' }
  yield { type: 'finish' }
}

export type Stamp = { readonly round: number; readonly n: number; readonly saidMs: number }

/** The stamps in a frame. A frame may have several: a pod merges the chunks that a reader has not taken yet. */
export function stampsIn(text: string): Stamp[] {
  return Array.from(text.matchAll(/#(\d+)\.(\d+)@(\d+);/g), ([, round, n, at]) => ({
    round: Number(round),
    n: Number(n),
    saidMs: Number(at) / 1_000,
  }))
}
