// A call under its permit, from when it is sent until the permit is back: by its return, its error, or its deadline (T5). What
// its body leaves running past the deadline has no permit any more.
import { Retry } from '../errors.ts'
import { within, type Clock } from '../lib/clock.ts'
import type { Call } from '../task/runner.ts'
import { failureIn, failureOf, type CallFailure } from './outcome.ts'
import { replyOf } from './reply.ts'
import type { CallEnd } from './window.ts'

type Sent<Value> = {
  readonly body: (call: Call) => Promise<Value>
  readonly clock: Clock
  readonly deadlineMs: number
  readonly signal: AbortSignal | undefined
  readonly end: (how: CallEnd) => void
  /** What is thrown if it was refused. */
  readonly asRefused: (error: unknown) => unknown
}

export async function send<Value>(sent: Sent<Value>): Promise<Value> {
  const { body, clock, deadlineMs, signal, end } = sent
  const sentAtMs = clock.monotonicMs()
  const late = new Retry('unavailable', `A call took longer than ${deadlineMs} ms`)
  const over = new AbortController()
  const told: { firstMs?: number; failure?: CallFailure } = {}
  const call: Call = {
    signal: signal ? AbortSignal.any([signal, over.signal]) : over.signal,
    firstToken: () => void (told.firstMs ??= clock.monotonicMs() - sentAtMs),
    response: (status, headers, text) => {
      if (status >= 400) told.failure ??= failureOf(replyOf(status, headers, text), clock.now())
    },
  }
  try {
    const value = await within(clock, deadlineMs, start(body, call), late)
    const wholeMs = clock.monotonicMs() - sentAtMs
    end({ sentAtMs, ...(told.failure ?? { kind: 'ok', firstMs: told.firstMs, wholeMs }) })
    return value
  } catch (error) {
    over.abort(late)
    const how = told.failure && told.failure.kind !== 'client' ? told.failure : thrown(error)
    end({ sentAtMs, ...how })
    throw how.kind === 'refused' ? sent.asRefused(error) : error
  }

  function thrown(error: unknown): CallFailure {
    if (signal?.aborted) return { kind: 'client' } // our own cancel
    if (error === late) return { kind: told.firstMs === undefined ? 'timeout' : 'client' } // it spoke, at length
    return failureIn(error, clock.now())
  }
}

async function start<Value>(body: (call: Call) => Promise<Value>, call: Call): Promise<Value> {
  return body(call)
}
