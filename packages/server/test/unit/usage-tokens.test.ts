// What counts as tokens in the chunks of an agent, and what is ignored.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Chunk } from '@fleetline/protocol'
import { createTokenMeter } from '../../src/usage/tokens.ts'

const NONE = { cacheReadTokens: null, cacheWriteTokens: null, reasoningTokens: null }

function read(...chunks: object[]) {
  const meter = createTokenMeter()
  for (const chunk of chunks) meter.take(chunk as Chunk)
  return { models: meter.models(), context: meter.contextTokens() }
}
const step = (id: string | undefined, model: unknown, inputTokens: unknown, outputTokens: unknown = 1) => ({
  type: 'data-usage',
  ...(id !== undefined && { id }),
  data: { model, usage: { inputTokens, outputTokens } },
})

test('the usage in the metadata of the message counts for the whole attempt, in the shape of the AI SDK', () => {
  const usage = {
    inputTokens: 100,
    inputTokenDetails: { noCacheTokens: 20, cacheReadTokens: 70, cacheWriteTokens: 10 },
    outputTokens: 30,
    outputTokenDetails: { textTokens: 25, reasoningTokens: 5 },
    totalTokens: 130,
  }
  const finish = { type: 'finish', messageMetadata: { usage, model: 'gpt-5.1' } }
  assert.deepEqual(read({ type: 'start-step' }, step('1', 'x', 7), finish), {
    models: [
      {
        model: 'gpt-5.1',
        inputTokens: 100,
        outputTokens: 30,
        cacheReadTokens: 70,
        cacheWriteTokens: 10,
        reasoningTokens: 5,
      },
    ],
    context: 8,
  })
  const old = {
    type: 'message-metadata',
    messageMetadata: { usage: { inputTokens: 1, cachedInputTokens: 1, reasoningTokens: 0 } },
  }
  assert.deepEqual(read(old).models, [
    {
      model: '',
      inputTokens: 1,
      outputTokens: null,
      cacheReadTokens: 1,
      cacheWriteTokens: null,
      reasoningTokens: 0,
    },
  ])
})

test('steps are summed by model; the same id counts once', () => {
  assert.deepEqual(
    read(
      step('1', 'a', 10),
      step('2', 'b', 20),
      step('1', 'a', 11),
      step(undefined, 'a', 100),
      step(undefined, 'a', 100),
    ).models,
    [
      { model: 'a', inputTokens: 211, outputTokens: 3, ...NONE },
      { model: 'b', inputTokens: 20, outputTokens: 1, ...NONE },
    ],
  )
})

test('the length of the conversation is that of the last call of the model, if that is known', () => {
  const total = { type: 'finish', messageMetadata: { usage: { inputTokens: 50, outputTokens: 5 } } }
  const call = { type: 'start-step' }
  assert.equal(read(call, total).context, 55)
  assert.equal(read(call, call, total).context, undefined, 'the sum of two calls is no length')
  assert.equal(read(call, step('1', 'a', 10), call, step('2', 'a', 30), total).context, 31)
  assert.equal(read(call).context, undefined)
})

test('numbers and names that no provider would send are ignored', () => {
  for (const count of [-1, 1.5, 2 ** 31, Number.NaN, '5', null, {}, true])
    assert.deepEqual(read(step('1', 'a', count, 2)).models, [
      { model: 'a', inputTokens: null, outputTokens: 2, ...NONE },
    ])
  assert.deepEqual(read(step('1', 'a', null, null)).models, [])
  for (const model of ['', ' x', 'x'.repeat(129), 'a\u0000', 'a\nb', '<b>', 5, null, {}])
    assert.equal(read(step('1', model, 1)).models[0]!.model, '')
  for (const data of [null, 5, 'x', [], { usage: null }, { usage: [] }])
    assert.deepEqual(read({ type: 'data-usage', data }).models, [])
  assert.deepEqual(read({ type: 'finish', messageMetadata: null }, { type: 'start' }).models, [])
  const most = 2 ** 31 - 1
  assert.equal(read(step('1', 'a', most), step('2', 'a', most)).models[0]!.inputTokens, most)
})

test('an attempt has at most 20 models, and remembers at most 1,000 steps', () => {
  const many = Array.from({ length: 3_000 }, (_, n) => step(`s${n}`, `m${n % 50}`, 1))
  const { models } = read(...many)
  assert.equal(models.length, 21)
  assert.equal(
    models.reduce((sum, { inputTokens }) => sum + inputTokens!, 0),
    3_000,
  )
})
