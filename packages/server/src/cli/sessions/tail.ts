// fleetline sessions tail: follows as a client does. A stream that ends or is lost is asked for again behind the last
// event that was told, from whichever pod answers: every item is told once, in order, without a hole. What is refused
// is not asked again; neither is a fleet that has never answered, since its address is wrong, most likely.
import type { Frame, Item, Turn } from '@fleetline/protocol'
import type { EventSourceMessage } from 'eventsource-parser'
import { loadConfig } from '../../config.ts'
import { Abort, Rejected } from '../../errors.ts'
import { frameSchema } from '../../gateway/session-schemas.ts'
import { backoffMs } from '../../lib/backoff.ts'
import { systemClock, type Clock } from '../../lib/clock.ts'
import { systemRandom, type Random } from '../../lib/random.ts'
import { createApi, type Api } from '../api.ts'
import type { Call } from '../command.ts'
import { seqOf } from '../options.ts'
import { EXIT, type Output } from '../output.ts'
import { stopSignal } from '../stop-signal.ts'

const BACKOFF = { baseMs: 250, capMs: 10_000 }

export async function tail({ flags, args, options, output }: Call): Promise<number> {
  const [clock, random] = [systemClock(), systemRandom()]
  const after = seqOf('--after', options['after'] ?? '0')
  const { openEvents } = createApi(loadConfig({ flags }).url, clock)
  const path = `/sessions/${encodeURIComponent(args[0]!)}/events`
  const onLost = () => output.note('The stream ended or was lost: coming back.')
  const stopping = new AbortController()
  void stopSignal().first.then(() => stopping.abort())
  const frames = followFrames({ openEvents, clock, random, onLost }, { path, after }, stopping.signal)
  for await (const frame of frames) show(output, frame)
  return EXIT.done
}

type Deps = Pick<Api, 'openEvents'> & {
  readonly clock: Clock
  readonly random: Random
  readonly onLost: () => void
}
type From = { readonly path: string; readonly after: number }

/** Ends when the signal is aborted. */
export async function* followFrames(
  { openEvents, clock, random, onLost }: Deps,
  { path, after }: From,
  signal: AbortSignal,
): AsyncGenerator<Frame> {
  let lastId = String(after)
  let hasAnswered = false
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

/** The log alone: a turn is a note, and what it says is shown when it is in the log. */
function show(output: Output, frame: Frame): void {
  switch (frame.type) {
    case 'messages':
      for (const item of frame.items) output.next([item.seq, item.at, whoOf(item), textOf(item)], item)
      return
    case 'gap':
      if (output.isJson) output.one(frame)
      else
        output.note(`The session has another history now: what was told up to seq ${frame.from - 1} is void.`)
      return
    case 'turn':
      return output.note(phraseOf(frame.turn))
    case 'chunks':
      return
  }
}

function phraseOf({ id, state, pod, attempt, error }: Turn): string {
  const where = state === 'running' ? ` on ${pod} (attempt ${attempt})` : ''
  return `${id} is ${state}${where}${error ? `: ${error.message}` : ''}`
}

function whoOf({ author: { kind, id } }: Item): string {
  return id === undefined ? kind : `${kind} ${id}`
}

/** Texts as they are; of other parts, what they are. */
function textOf({ parts }: Item): string {
  return parts
    .map(({ type, text }) => (type === 'text' && typeof text === 'string' ? text : `[${type}]`))
    .join(' ')
}
