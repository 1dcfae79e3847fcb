// Follows the frames of a session or of an inbox. If the stream ends or is lost, it is opened again after the last event that was
// yielded, through whichever pod answers. Every item of a session is yielded once, in order, without a gap; an inbox begins again. A
// rejected request is not retried. Neither is a fleet that has never answered, because its address is probably wrong.
import type { EndedFrame, Frame, InboxFrame, Turn } from '@fleetline/protocol'
import type { EventSourceMessage } from 'eventsource-parser'
import type { z } from 'zod'
import { Abort, Rejected } from '../errors.ts'
import { inboxFrameSchema } from '../gateway/inbox-schemas.ts'
import { frameSchema } from '../gateway/session-schemas.ts'
import { backoffMs } from '../lib/backoff.ts'
import type { Clock } from '../lib/clock.ts'
import type { Random } from '../lib/random.ts'
import type { Api } from './api.ts'

type Deps = Pick<Api, 'openEvents'> & {
  readonly clock: Clock
  readonly random: Random
  readonly onLost: () => void
}
type From = {
  /** Relative to /v1, with the position to start from. */
  readonly path: string
  /** Whether the fleet has answered before. */
  readonly isKnown: boolean
}

const BACKOFF = { baseMs: 250, capMs: 10_000 }

/** Ends when the signal is aborted. */
export function followFrames(deps: Deps, from: From, signal: AbortSignal): AsyncGenerator<Frame> {
  return follow<Frame>(deps, { ...from, schema: frameSchema }, signal)
}

/** Ends when the signal is aborted. */
export function followInbox(deps: Deps, from: From, signal: AbortSignal): AsyncGenerator<InboxFrame> {
  return follow<InboxFrame>(deps, { ...from, schema: inboxFrameSchema }, signal)
}

async function* follow<One extends { readonly type: string }>(
  { openEvents, clock, random, onLost }: Deps,
  { path, isKnown, schema }: From & { readonly schema: z.ZodType },
  signal: AbortSignal,
): AsyncGenerator<One> {
  let [lastId, hasAnswered]: [string | undefined, boolean] = [undefined, isKnown]
  for (let failures = 0; ; failures += 1) {
    try {
      const events = await openEvents(path, lastId, signal)
      hasAnswered = true
      failures = 0
      for await (const event of events) {
        const frame = parsed(event, schema) as One | EndedFrame
        if (isEnd(frame)) throw new Rejected(frame.code, frame.text)
        yield frame
        lastId = event.id ?? lastId
      }
    } catch (error) {
      const isFinal = error instanceof Rejected || error instanceof Abort || !hasAnswered
      if (isFinal && !signal.aborted) throw error
    }
    if (signal.aborted) return
    if (failures === 0) onLost()
    await clock.sleep(backoffMs(BACKOFF, failures, random), signal).catch(() => undefined) // aborted: it ends above
  }
}

function isEnd(frame: { readonly type: string }): frame is EndedFrame {
  return frame.type === 'ended'
}

function parsed({ data }: EventSourceMessage, schema: z.ZodType): unknown {
  try {
    return schema.parse(JSON.parse(data))
  } catch (cause) {
    throw new Abort('internal', 'An event came that this release of Fleetline does not know', { cause })
  }
}

/** Describes a turn in a note. */
export function phraseOf({ id, agent, state, pod, attempt, waitsFor, error, halted }: Turn): string {
  const why = waitsFor === null ? '' : `, because ${reasonOf(waitsFor, agent)}`
  const where = state === 'running' ? ` on ${pod} (attempt ${attempt})` : why
  const end = error ? `: ${error.message}` : halted === true ? ', and has halted' : ''
  return `${id} is ${state}${where}${end}`
}

function reasonOf(waitsFor: string, agent: string): string {
  if (waitsFor === 'agent_unknown')
    return `no live pod can call the agent ${agent}: start a pod that has it, or add its URL`
  if (waitsFor === 'rate_limited') return `the agent ${agent} is at its limit`
  if (waitsFor === 'later') return `the agent ${agent} asked to be called later`
  return `its last attempt failed (${waitsFor})`
}
