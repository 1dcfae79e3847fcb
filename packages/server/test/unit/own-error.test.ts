// How an agent says why it failed: the text that its kit writes, and how a pod reads it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { APICallError, RetryError } from 'ai'
import { onError } from '../../src/agent-kit.ts'
import { AgentFault } from '../../src/agent/fault.ts'
import { faultOfText } from '../../src/agent/own-error.ts'
import { retryAfterMs, waitMs } from '../../src/agent/retry-after.ts'
import { Retry } from '../../src/errors.ts'

test('the kit reports what a turn needs of an error of the AI SDK, and nothing else', () => {
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

test('a pod follows what the text asks for, and shows nobody its code and status', () => {
  const told = (text: string) => {
    const fault = faultOfText(`fleetline:${text}`)
    if (fault instanceof Retry) return { end: 'later', afterMs: fault.afterMs }
    assert.ok(fault instanceof AgentFault)
    assert.doesNotMatch(fault.message, /ours|503/)
    return { end: fault.isFinal ? 'failed' : 'again', afterMs: fault.afterMs, detail: fault.detail }
  }
  assert.deepEqual(told('{"status":429,"retryAfterMs":9000,"code":"ours"}'), { end: 'later', afterMs: 9_000 })
  assert.deepEqual(told('{"status":429}'), { end: 'later', afterMs: 5_000 })
  assert.deepEqual(told('{"status":429,"retryAfterMs":1}'), { end: 'later', afterMs: 1_000 })
  assert.deepEqual(told('{"status":503,"code":"ours","retryAfterMs":1e9}'), {
    end: 'again',
    afterMs: 600_000,
    detail: 'ours 503',
  })
  assert.deepEqual(told('{"status":400}'), { end: 'failed', afterMs: undefined, detail: '400' })
  assert.deepEqual(told('{"status":408}'), { end: 'again', afterMs: undefined, detail: '408' })
  assert.deepEqual(told('{"status":400,"retryable":true}'), {
    end: 'again',
    afterMs: undefined,
    detail: '400',
  })
  assert.equal(told('{"status":400,"code":"my card is 4111"}').detail, '400')
  assert.deepEqual(told('{"retryable":false}'), { end: 'failed', afterMs: undefined, detail: '' })
  const deep = `{"status":429,"code":${'['.repeat(100)}${']'.repeat(100)}}`
  for (const text of ['', 'null', '[]', 'nonsense', deep, '{"status":"429","retryAfterMs":"1","code":1}'])
    assert.deepEqual(told(text), { end: 'again', afterMs: undefined, detail: '' }, text)
  assert.equal(faultOfText('overloaded').message, 'The agent said: overloaded')
})

test('Retry-After is read as seconds or as a date, and limited to ten minutes', () => {
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
  assert.equal(retryAfterMs(theirs, now), 2_000, 'by the clock of the sender')
  assert.equal(waitMs(Number.NaN), undefined)
  assert.equal(waitMs('1'), undefined)
  assert.equal(waitMs(-5), 0)
})
