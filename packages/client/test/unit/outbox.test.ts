// What the outbox does with a message that is over a rate limit, on a clock that the test moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Ack, Message } from '@fleetline/protocol'
import { manualClock } from '../../../server/test/support/clock.ts'
import { failureOf } from '../../src/failure.ts'
import { createOutbox } from '../../src/outbox.ts'

const BACKOFF_MS = 125 // half of the first range

test('a message that is over a rate limit waits as long as the pod says, keeps its place, and the next ones follow', async () => {
  const clock = manualClock()
  const pending: Message[] = ['one', 'two'].map((id) => ({ id, role: 'user', parts: [] }))
  const [posted, refused]: [string[], string[]] = [[], []]
  const answers = [limited(3_000), limited(3_000)]
  const outbox = createOutbox({
    clock,
    random: () => 0.5,
    next: () => pending[0],
    post: async ({ id }): Promise<Ack> => {
      posted.push(id)
      const answer = answers.shift()
      if (answer) throw await failureOf(answer)
      return { id, seq: posted.length, deduped: false }
    },
    onAck: () => void pending.shift(),
    onRefusal: (id) => refused.push(id),
  })
  const closing = new AbortController()
  const over = outbox.run(closing.signal)
  for (const [nth, pauseMs] of [BACKOFF_MS, 2 * BACKOFF_MS].entries()) {
    await settle()
    assert.equal(posted.length, nth + 1)
    await clock.advance(2_999)
    outbox.wake() // another message to send does not shorten the wait
    await settle()
    assert.equal(posted.length, nth + 1)
    await clock.advance(1 + pauseMs)
  }
  await settle()
  assert.deepEqual(posted, ['one', 'one', 'one', 'two'])
  assert.deepEqual(refused, [], 'the application sees no failure')
  closing.abort()
  await over
})

/** As a pod answers. */
function limited(retryAfterMs: number): Response {
  const error = { code: 'rate_limited', text: 'Wait, then send again', retryable: true, retryAfterMs }
  return Response.json({ error: { ...error, requestId: 'req_1' } }, { status: 429 })
}

/** Lets everything run that waits for no timer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
