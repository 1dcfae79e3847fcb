import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Retry } from '../../src/errors.ts'
import { failureIn, failureOf, type CallFailure } from '../../src/throttle/reply/outcome.ts'
import { replyOf } from '../../src/throttle/reply/reply.ts'

const NOW = Date.parse('2026-03-01T10:00:00Z')
const seen = (status: number, headers?: unknown, body?: unknown) =>
  failureOf(replyOf(status, headers, body), NOW)
const thrown = (error: unknown) => failureIn(error, NOW)
const with_ = (fields: object, message = 'failed', cause?: unknown) =>
  Object.assign(new Error(message, { cause }), fields)
const untyped = (more: object) => new Retry('rate_limited', 'busy', more)
const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
const is = (kind: CallFailure['kind'], waitMs?: number): CallFailure =>
  kind === 'client' ? { kind } : { kind, waitMs }

test('an answer is classified by what each provider says in it', () => {
  const answers: readonly [string, CallFailure, CallFailure][] = [
    ['any 429', seen(429), is('refused')],
    ['Groq, flexible tier', seen(498), is('refused')],
    ['OpenRouter, budget in flight', seen(402, {}, 'in-flight budget exceeded'), is('refused')],
    ['OpenRouter, no money', seen(402, {}, 'Insufficient credits'), is('client')],
    ['OpenAI, slope', seen(503, {}, { error: { code: 'slow_down' } }), is('refused')],
    ['Azure, demand', seen(500, {}, 'We are experiencing high demand'), is('refused')],
    ['503 with a wait', seen(503, { 'retry-after': '2' }), is('refused', 2_000)],
    ['503 without', seen(503), is('server')],
    [
      'Anthropic, overloaded',
      seen(529, {}, { type: 'error', error: { type: 'overloaded_error' } }),
      is('server'),
    ],
    ['bad gateway that names a wait', seen(502, { 'Retry-After': '3' }), is('server', 3_000)],
    ['timeout of a proxy', seen(408), is('timeout')],
    ['bad request', seen(400, { 'retry-after': '9' }), is('client')],
    ['content filter', seen(400, {}, { error: { code: 'content_filter' } }), is('client')],
  ]
  for (const [what, found, expected] of answers) assert.deepEqual(found, expected, what)
})

test('an error that a client library threw is classified', () => {
  const gone = with_({ code: 'ECONNRESET' })
  const aws = { name: 'ThrottlingException', $metadata: { httpStatusCode: 400 } }
  const sdk = {
    name: 'AI_APICallError',
    statusCode: 429,
    responseHeaders: { 'retry-after-ms': '750' },
    responseBody: '{"error":{"type":"rate_limit_error"}}',
  }
  const errors: readonly [string, CallFailure, CallFailure][] = [
    ['AI SDK', thrown(with_(sdk)), is('refused', 750)],
    [
      'AI SDK, its last try',
      thrown(with_({ name: 'AI_RetryError', lastError: with_(sdk) })),
      is('refused', 750),
    ],
    [
      'OpenAI',
      thrown(with_({ status: 429, headers: new Headers({ 'retry-after': '1.5' }) })),
      is('refused', 1_500),
    ],
    [
      'Anthropic, inside a stream',
      thrown(with_({ error: { type: 'error', error: { type: 'rate_limit_error' } } })),
      is('refused'),
    ],
    ['AWS', thrown(with_(aws)), is('refused')],
    [
      'AWS, with headers',
      thrown(with_({ ...aws, $response: { headers: { 'retry-after': '4' } } })),
      is('refused', 4_000),
    ],
    [
      'AWS, too slow',
      thrown(with_({ name: 'ModelTimeoutException', $metadata: { httpStatusCode: 408 } })),
      is('timeout'),
    ],
    ['fetch, no connection', thrown(new TypeError('fetch failed', { cause: gone })), is('server')],
    [
      'undici',
      thrown(new TypeError('fetch failed', { cause: with_({ code: 'UND_ERR_HEADERS_TIMEOUT' }) })),
      is('timeout'),
    ],
    ['AbortSignal.timeout', thrown(new DOMException('late', 'TimeoutError')), is('timeout')],
    ['a bug of the caller', thrown(new TypeError('x is not a function')), is('client')],
    ['no error at all', thrown(undefined), is('client')],
    ['ours', thrown(new Retry('rate_limited', 'busy', { afterMs: 80 })), is('refused', 80)],
    ['ours, until', thrown(new Retry('rate_limited', 'busy', { at: new Date(NOW + 90) })), is('refused', 90)],
    [
      'ours, for ever',
      thrown(new Retry('rate_limited', 'busy', { afterMs: 1e12 })),
      is('refused', 86_400_000),
    ],
    ['of a limiter', thrown(new Retry('rate_limited', 'no', { fields: { key: 'k' } })), is('client')],
    ['ours, as untyped code says it', thrown(untyped({ at: NOW + 90 })), is('refused')],
    ['ours, without fields', thrown(untyped({ fields: null })), is('refused')],
    ['what cannot be read', thrown(revoked()), is('client')],
    ['ours, of another kind', thrown(new Retry('unavailable', 'no')), is('client')],
  ]
  for (const [what, found, expected] of errors) assert.deepEqual(found, expected, what)
})

test('a wait is read in all its forms, and the first readable one above 0 applies', () => {
  const waits: readonly [string, number | undefined, number | undefined][] = [
    ['milliseconds', wait({ 'retry-after-ms': '120.5' }), 120.5],
    ['Azure', wait({ 'x-ms-retry-after-ms': '900' }), 900],
    ['seconds', wait({ 'retry-after': '20' }), 20_000],
    ['decimal seconds', wait({ 'retry-after': '0.25' }), 250],
    [
      'a date, by their clock',
      wait({ 'retry-after': 'Sun, 01 Mar 2026 09:00:07 GMT', date: 'Sun, 01 Mar 2026 09:00:00 GMT' }),
      7_000,
    ],
    ['a date, by ours', wait({ 'retry-after': 'Sun, 01 Mar 2026 10:00:07 GMT' }), 7_000],
    ['a date that has passed', wait({ 'retry-after': 'Sun, 01 Mar 2026 09:59:00 GMT' }), undefined],
    ['IETF', wait({ ratelimit: '"default";r=0;t=12' }), 12_000],
    ['reset in seconds', wait({ 'ratelimit-reset': '6' }), 6_000],
    ['reset at a second', wait({ 'x-ratelimit-reset': String(NOW / 1_000 + 30) }), 30_000],
    [
      'reset at a second, by their clock',
      wait({
        'x-ratelimit-reset': String(NOW / 1_000 + 7_202),
        date: new Date(NOW + 7_200_000).toUTCString(),
      }),
      2_000,
    ],
    ['reset at a millisecond', wait({ 'x-ratelimit-reset': String(NOW + 400) }), 400],
    ['Google', wait({}, { error: { details: [{ retryDelay: '37s' }] } }), 37_000],
    ['words', wait({}, 'Rate limit reached. Please try again in 1.2s. Visit'), 1_200],
    ['words, ms', wait({}, 'Please try again in 320ms.'), 320],
    ['words, minutes', wait({}, 'Please retry after 2 minutes'), 120_000],
    ['words, minutes and seconds', wait({}, 'Please try again in 1m26.4s. Visit'), 86_400],
    ['words, hours', wait({}, 'try again in 1h2m3s'), 3_723_000],
    ['words, whole', wait({}, 'Retry after 2 hours 5 minutes.'), 7_500_000],
    ['words without a time', wait({}, 'try again in 3 steps'), undefined],
    ['the first above 0', wait({ 'retry-after-ms': '0', 'retry-after': '3' }), 3_000],
    ['the first', wait({ 'retry-after-ms': '40', 'retry-after': '3' }), 40],
    [
      'the time until a bucket is full again is no wait',
      wait({
        'x-ratelimit-reset-tokens': '6m0s',
        'anthropic-ratelimit-tokens-reset': '2026-03-01T11:00:00Z',
      }),
      undefined,
    ],
    ['nonsense', wait({ 'retry-after': '-5' }), undefined],
    ['longer than a day', wait({ 'retry-after': '999999999' }), 86_400_000],
  ]
  for (const [what, found, expected] of waits) assert.equal(found, expected, what)
  for (const headers of [{ ratelimit: '"default";r=5;t=12' }, { 'ratelimit-reset': '6' }])
    assert.deepEqual(seen(503, headers), is('server'), 'in a 503 they describe a bucket, not a wait')

  function wait(headers: object, body?: unknown): number | undefined {
    return seen(429, headers, body).waitMs
  }
})

test('R5: every thrown value has a class', () => {
  const trap = new Proxy({}, { get: () => assert.fail('looked at'), ownKeys: () => assert.fail('looked at') })
  const ring: Record<string, unknown> = { message: 'round' }
  ring['cause'] = ring
  ring['error'] = ring
  for (const odd of [trap, ring, { headers: trap }, { headers: { get: () => ring } }, { response: trap }])
    assert.deepEqual(thrown(odd), is('client'))
  const property = fc.property(fc.anything(), fc.anything(), (error, headers) => {
    const kinds = ['refused', 'timeout', 'server', 'client']
    for (const { kind } of [thrown(error), seen(429, headers, error)]) assert.ok(kinds.includes(kind), kind)
  })
  fc.assert(property, { seed: 22, numRuns: 200 })
})
