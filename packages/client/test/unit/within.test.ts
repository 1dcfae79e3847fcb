// `within` removes its timer and its listeners after the answer.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { manualClock } from '../../../server/test/support/clock.ts'
import { within } from '../../src/within.ts'

// While a signal made by `AbortSignal.any` has a listener, it lives as long as its source.
test('after an answer no timer is left, and no listener: a session that sends for weeks would keep them', async () => {
  const [clock, session] = [manualClock(), new AbortController()]
  const signals = await within(clock, session.signal, (signal) => [signal, session.signal])
  assert.deepEqual(
    signals.map((signal) => getEventListeners(signal, 'abort').length),
    [0, 0],
  )
  assert.equal(clock.sleepers, 0)
})

test('the signal of the answer is aborted with the session also later, for its body', async () => {
  const [clock, session] = [manualClock(), new AbortController()]
  const signal = await within(clock, session.signal, (signal) => signal)
  session.abort()
  assert.ok(signal.aborted)
})
