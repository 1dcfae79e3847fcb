// S9: what a stream sends while nobody knows whether its caller is still let in, on a clock that the test moves.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { EVENTS, type SentEvent } from '../../src/door/events.ts'
import { LINES } from '../../src/door/lines.ts'
import { sendStream, type StreamFormat } from '../../src/door/stream.ts'
import { Rejected, Retry } from '../../src/errors.ts'
import { atEnd } from '../support/cleanup.ts'
import { manualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'

test('S9: a stream whose caller nobody could check for 5 s is silent, and goes on when somebody can', async (t) => {
  const { clock, say, until, answer } = await streamOn(t, EVENTS, eventOf)
  say('one')
  await until('one')
  answer(new Retry('unavailable', 'PostgreSQL does not answer'))
  await clock.advance(4_000)
  say('two')
  await until('two')
  await clock.advance(2_000)
  say('three')
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(await until('two'), 'one two', 'held back')
  answer(undefined)
  await clock.advance(2_000)
  assert.equal(await until('three'), 'one two three')
})

test('S9: a stream whose caller is rejected ends with the reason, and sends nothing after it', async (t) => {
  const { clock, say, until, answer, over } = await streamOn(t, EVENTS, eventOf)
  say('one')
  await until('one')
  answer(new Rejected('unauthenticated', 'The token has expired.'))
  await clock.advance(2_000)
  say('two')
  await over
  assert.equal(await until('ended'), 'one ended unauthenticated: The token has expired.')
})

test('S9: lines of JSON end with the reason, too, so that nobody takes a part for the whole', async (t) => {
  const { clock, say, until, answer, over } = await streamOn(t, LINES, (type) => [{ type }])
  say('one')
  await until('one')
  answer(new Rejected('not_found', 'There is no such session.'))
  await clock.advance(2_000)
  say('end')
  await over
  assert.equal(await until('cut-off'), 'one cut-off not_found: There is no such session.')
})

const eventOf = (type: string): SentEvent => ({ id: '1', data: { type } })

/** `answer` sets what the next checks of the caller say: undefined lets it in. */
async function streamOn<Piece>(
  t: TestContext,
  format: StreamFormat<Piece>,
  pieceOf: (type: string) => Piece,
) {
  const [clock, said, waiting]: [ReturnType<typeof manualClock>, string[], (() => void)[]] = [
    manualClock(),
    [],
    [],
  ]
  let fault: Error | undefined
  const recheck = async () => {
    if (fault) throw fault
  }
  const source = async function* (signal: AbortSignal): AsyncGenerator<Piece> {
    for (let n = 0; !signal.aborted;) {
      if (n < said.length) yield pieceOf(said[n++]!)
      else await new Promise<void>((resolve) => void waiting.push(resolve))
    }
  }
  const { promise: over, resolve } = Promise.withResolvers<void>()
  const server = createServer((_, raw) => {
    const options = {
      format,
      headers: {},
      stopping: new AbortController().signal,
      recheck,
      stallMs: 60_000,
      clock,
    }
    const from = ({ signal }: { signal: AbortSignal }) => {
      signal.addEventListener('abort', () => waiting.forEach((wake) => wake()))
      return source(signal)
    }
    void sendStream(raw, { ...options, source: from, onError: (error) => assert.fail(String(error)) }).then(
      resolve,
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => server.close().closeAllConnections())
  const { body } = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  let text = ''
  const read = async () => {
    for await (const piece of body!.pipeThrough(new TextDecoderStream())) text += piece
  }
  read().catch(() => undefined) // the server was closed
  return {
    clock,
    over,
    say: (type: string) => {
      said.push(type)
      waiting.splice(0).forEach((wake) => wake())
    },
    answer: (error: Error | undefined) => void (fault = error),
    /** Resolves to the types of all events so far, once the last one has this type. */
    until: (type: string) =>
      eventually(
        () => {
          const data = [...text.matchAll(/^(?:data: )?(\{.*\})$/gm)].map(
            ([, json]) => JSON.parse(json!) as { type: string; code?: string; text?: string },
          )
          assert.equal(data.at(-1)?.type, type)
          return data.map((one) => (one.code ? `${one.type} ${one.code}: ${one.text}` : one.type)).join(' ')
        },
        { what: type, details: () => text },
      ),
  }
}
