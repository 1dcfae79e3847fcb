// An agent says why it failed: what its kit writes, and what a pod reads.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { APICallError, RetryError } from 'ai'
import { onError } from '../../src/agent-kit.ts'
import { AgentFault } from '../../src/agent/fault.ts'
import { faultOfText } from '../../src/agent/own-error.ts'
import { retryAfterMs, waitMs } from '../../src/agent/retry-after.ts'
import { Retry } from '../../src/errors.ts'

test('the kit says what a turn needs to know of an error of the AI SDK, and nothing else', () => {
  const url = 'https://model.example/?key=secret'
  const busy = new APICallError({
    message: 'Too many',
    url,
    requestBodyValues: {},
    statusCode: 429,
    responseHeaders: { 'retry-after': '3' },
  })
  const retried = new RetryError({ message: 'gave up', reason: 'maxRetriesExceeded', errors: [busy, busy] })
  const cases = [
    [busy, '"status":429,"retryable":true,"retryAfterMs":3000'],
    [retried, '"status":429,"retryable":true,"retryAfterMs":3000'],
    [
      new APICallError({ message: 'No', url, requestBodyValues: {}, statusCode: 401 }),
      '"status":401,"retryable":false',
    ],
    [new TypeError('of our own'), ''],
    ['a text', ''],
  ] as const
  for (const [error, fields] of cases) {
    const text = onError(error)
    assert.match(text, /^fleetline:\{/)
    assert.ok(text.includes(fields), text)
    assert.doesNotMatch(text, /secret|of our own|a text/)
  }
})

test('a pod does as it is told, and tells nobody', () => {
  const told = (text: string) => {
    const fault = faultOfText(`fleetline:${text}`)
    if (fault instanceof Retry) return ['later', fault.afterMs]
    assert.ok(fault instanceof AgentFault)
    assert.doesNotMatch(fault.message, /ours|503/)
    return [fault.isFinal ? 'failed' : 'again', fault.afterMs, fault.detail]
  }
  assert.deepEqual(told('{"status":429,"retryAfterMs":9000,"code":"ours"}'), ['later', 9_000])
  assert.deepEqual(told('{"status":429}'), ['later', 5_000])
  assert.deepEqual(told('{"status":429,"retryAfterMs":1}'), ['later', 1_000])
  assert.deepEqual(told('{"status":503,"code":"ours","retryAfterMs":1e9}'), ['again', 600_000, 'ours 503'])
  assert.deepEqual(told('{"status":400}'), ['failed', undefined, '400'])
  assert.deepEqual(told('{"status":408}'), ['again', undefined, '408'])
  assert.deepEqual(told('{"status":400,"retryable":true}'), ['again', undefined, '400'])
  assert.deepEqual(told('{"retryable":false}'), ['failed', undefined, ''])
  const deep = `{"status":429,"code":${'['.repeat(100)}${']'.repeat(100)}}`
  for (const text of ['', 'null', '[]', 'nonsense', deep, '{"status":"429","retryAfterMs":"1","code":1}'])
    assert.deepEqual(told(text), ['again', undefined, ''])
  assert.equal(faultOfText('overloaded').message, 'The agent said: overloaded')
})

test('seconds, a date, or nothing; ten minutes at most', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  const cases = [
    ['3', 3_000],
    ['0', 0],
    ['99999', 600_000],
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2025 00:00:30 GMT', 0],
    ['-1', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    [undefined, undefined],
    [['1', '2'], undefined],
  ] as const
  for (const [header, ms] of cases)
    assert.equal(retryAfterMs({ 'retry-after': header }, now), ms, String(header))
  const theirs = { 'retry-after': 'Thu, 01 Jan 2026 02:00:02 GMT', date: 'Thu, 01 Jan 2026 02:00:00 GMT' }
  assert.equal(retryAfterMs(theirs, now), 2_000, 'by the clock of who says it')
  assert.deepEqual([waitMs(Number.NaN), waitMs('1'), waitMs(-5)], [undefined, undefined, 0])
})
