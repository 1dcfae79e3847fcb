// Sends a device's messages one at a time, in order. The next one goes when the one before is known to be stored or was rejected.
// A message whose outcome is unknown is sent again with the same id until it is known, so that it is stored once.
import type { Ack, Message } from '@fleetline/protocol'
import { backoffMs, type Clock, type Random } from './clock.ts'
import { isRefusal, retryAfterMs, type FleetlineError } from './failure.ts'
import { napOf } from './nap.ts'

type Deps = {
  readonly clock: Clock
  readonly random: Random
  /** The first pending message. */
  readonly next: () => Message | undefined
  readonly post: (message: Message, signal: AbortSignal) => Promise<Ack>
  readonly onAck: (ack: Ack) => void
  readonly onRefusal: (id: string, error: FleetlineError) => void
}
export type Outbox = {
  /** Ends when the signal is aborted; never rejects. */
  readonly run: (signal: AbortSignal) => Promise<void>
  /** Call it when there is a message to send. */
  readonly wake: () => void
  /** Call it when the fleet answers again: a message that has waited long is sent now. */
  readonly hurry: () => void
  /** Call it when a message is known to be stored: the next one goes. Resolves when its answer has come or failed, if it is in flight. */
  readonly settle: (id: string) => Promise<unknown> | undefined
}
/** A message in flight. */
type Sending = {
  readonly id: string
  readonly sinceMs: number
  readonly settle: () => void
  readonly answered: Promise<unknown>
  readonly cut: () => void
}

const IDLE_MS = 2 ** 31 - 1
const LONG_MS = 5_000
const UNKNOWN = new Error('unknown')

export function createOutbox(deps: Deps): Outbox {
  const { clock, random, next } = deps
  const nap = napOf(clock)
  let [sending, isHurried]: [Sending | undefined, boolean] = [undefined, false]

  /** Returns why the outcome is unknown; undefined if the message is stored or was rejected. */
  const send = async (message: Message, signal: AbortSignal): Promise<unknown> => {
    const cut = new AbortController()
    const answered = deliver(deps, message, AbortSignal.any([signal, cut.signal]))
    const { promise: settled, resolve: settle } = Promise.withResolvers<void>()
    const way = { settle, answered, cut: () => cut.abort() }
    sending = { id: message.id, sinceMs: clock.now(), ...way }
    const failure = await Promise.race([answered, settled])
    sending = undefined
    return failure
  }
  return {
    run: async (signal) => {
      for (let failures = 0; !signal.aborted;) {
        const message = next()
        if (!message) {
          await nap.sleep(IDLE_MS, signal)
          continue
        }
        isHurried = false
        const isKnown = () => next()?.id !== message.id
        const failure = (await send(message, signal)) ?? (isKnown() ? undefined : UNKNOWN) // it was stored in a history that is gone
        failures = failure === undefined ? 0 : failures + 1
        if (failure === undefined) continue
        await clock.sleep(retryAfterMs(failure), signal).catch(() => undefined) // aborted: the loop ends
        if (!isHurried) await nap.sleep(backoffMs(failures - 1, random), signal)
      }
    },
    wake: nap.wake,
    hurry: () => {
      isHurried = true
      nap.wake()
      if (sending && clock.now() - sending.sinceMs > LONG_MS) sending.cut()
    },
    settle: (id) => {
      if (sending?.id !== id) return undefined
      sending.settle()
      return sending.answered
    },
  }
}

async function deliver(
  { post, onAck, onRefusal }: Deps,
  message: Message,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    const ack = await post(message, signal)
    if (ack.id !== message.id || !Number.isInteger(ack.seq)) return UNKNOWN
    onAck(ack)
    return undefined
  } catch (error) {
    if (!isRefusal(error)) return error
    onRefusal(message.id, error)
    return undefined
  }
}
