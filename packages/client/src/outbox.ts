// What a device sends, one message at a time, in order: the next one goes when the one before is known to be stored, or was
// refused. One whose outcome is unknown goes out again with the same id until it is known, so that it is there once.
import type { Ack, Message } from '@fleetline/protocol'
import { backoffMs, type Clock, type Random } from './clock.ts'
import { isRefusal, retryAfterMs, type FleetlineError } from './failure.ts'
import { napOf } from './nap.ts'

type Deps = {
  readonly clock: Clock
  readonly random: Random
  /** The first that is pending. */
  readonly next: () => Message | undefined
  readonly post: (message: Message, signal: AbortSignal) => Promise<Ack>
  readonly onAck: (ack: Ack) => void
  readonly onRefusal: (id: string, error: FleetlineError) => void
}
export type Outbox = {
  /** Ends when the signal is aborted; never rejects. */
  readonly run: (signal: AbortSignal) => Promise<void>
  /** Something is new: a message, or a reason to hope. */
  readonly wake: () => void
  /** It is known to be stored: nobody waits for its answer any more. */
  readonly settle: (id: string) => void
}

const IDLE_MS = 2 ** 31 - 1

export function createOutbox({ clock, random, next, post, onAck, onRefusal }: Deps): Outbox {
  const nap = napOf(clock)
  let under: { readonly id: string; readonly settled: AbortController } | undefined

  /** How long to wait before the next one; undefined: this one is done with. */
  const send = async (message: Message, failures: number, signal: AbortSignal) => {
    const settled = new AbortController()
    under = { id: message.id, settled }
    try {
      onAck(await post(message, AbortSignal.any([signal, settled.signal])))
      return undefined
    } catch (error) {
      if (settled.signal.aborted) return undefined
      if (!isRefusal(error)) return Math.max(backoffMs(failures, random), retryAfterMs(error))
      onRefusal(message.id, error)
      return undefined
    } finally {
      under = undefined
    }
  }
  return {
    run: async (signal) => {
      for (let failures = 0; !signal.aborted;) {
        const message = next()
        const pauseMs = message ? await send(message, failures, signal) : IDLE_MS
        failures = message && pauseMs !== undefined ? failures + 1 : 0
        if (pauseMs !== undefined) await nap.sleep(pauseMs, signal)
      }
    },
    wake: nap.wake,
    settle: (id) => under?.id === id && under.settled.abort(),
  }
}
