// The frames of a session, as a client follows them. A stream that ends or is lost is asked for again behind the last event
// that was told, from whichever pod answers: every item is told once, in order, without a hole. What is refused is not asked
// again; neither is a fleet that has never answered, since its address is wrong, most likely.
import type { Frame, Turn } from '@fleetline/protocol'
import type { EventSourceMessage } from 'eventsource-parser'
import { Abort, Rejected } from '../../errors.ts'
import { frameSchema } from '../../gateway/session-schemas.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Random } from '../../lib/random.ts'
import type { Api } from '../api.ts'

type Deps = Pick<Api, 'openEvents'> & {
  readonly clock: Clock
  readonly random: Random
  readonly onLost: () => void
}
type From = {
  /** With where to begin, below /v1. */
  readonly path: string
  /** The fleet has answered before. */
  readonly isKnown: boolean
}

const BACKOFF = { baseMs: 250, capMs: 10_000 }

/** Ends when the signal is aborted. */
export async function* followFrames(
  { openEvents, clock, random, onLost }: Deps,
  { path, isKnown }: From,
  signal: AbortSignal,
): AsyncGenerator<Frame> {
  let [lastId, hasAnswered]: [string | undefined, boolean] = [undefined, isKnown]
  for (let failures = 0; ; failures += 1) {
    try {
      const events = await openEvents(path, lastId, signal)
      hasAnswered = true
      failures = 0
      for await (const event of events) {
        yield frameOf(event)
        lastId = event.id ?? lastId
      }
    } catch (error) {
      const isFinal = error instanceof Rejected || error instanceof Abort || !hasAnswered
      if (isFinal && !signal.aborted) throw error
    }
    if (signal.aborted) return
    if (failures === 0) onLost()
    await clock.sleep(backoffMs(BACKOFF, failures, random), signal).catch(() => undefined) // it is to stop
  }
}

function frameOf({ data }: EventSourceMessage): Frame {
  try {
    return frameSchema.parse(JSON.parse(data)) as Frame
  } catch (cause) {
    throw new Abort('internal', 'An event came that this release of Fleetline does not know', { cause })
  }
}

/** A turn as a note tells it. */
export function phraseOf({ id, state, pod, attempt, error, halted }: Turn): string {
  const where = state === 'running' ? ` on ${pod} (attempt ${attempt})` : ''
  const end = error ? `: ${error.message}` : halted === true ? ', and has halted' : ''
  return `${id} is ${state}${where}${end}`
}
