// What clients of older releases of the AI SDK get.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Chunk } from '@fleetline/protocol'
import { levelOf, parseLevel } from '../../src/gateway/chat/sdk-levels.ts'

const ASSUMED = [6, 0, 0] as const

function fitted(release: string | undefined, ...chunks: readonly Chunk[]): readonly Chunk[] {
  const fit = levelOf(release === undefined ? undefined : parseLevel(release), ASSUMED).fitting()
  return chunks.flatMap(fit)
}
const types = (chunks: readonly Chunk[]) => chunks.map(({ type }) => type).join(' ')

test('a release is three numbers', () => {
  assert.deepEqual(parseLevel('7.0.169'), [7, 0, 169])
  assert.deepEqual(parseLevel('6.0.0-beta.12'), [6, 0, 0])
  for (const text of ['', '7', '7.0', 'v7.0.1', '7.0.1.2', '7.0.x', '99999.0.0'])
    assert.equal(parseLevel(text), undefined)
})

test('a client gets no chunk that its release does not know, and an older one no field', () => {
  const newer: readonly Chunk[] = [
    { type: 'custom', kind: 'a.b' },
    { type: 'reset-step' },
    { type: 'tool-output-denied', toolCallId: '1' },
  ]
  assert.equal(types(fitted('7.0.169', ...newer)), 'custom reset-step tool-output-denied')
  assert.equal(types(fitted('7.0.69', ...newer)), 'custom tool-output-denied')
  assert.equal(types(fitted('6.0.322', ...newer)), 'tool-output-denied')
  assert.equal(types(fitted('5.0.277', ...newer)), '')
  assert.equal(types(fitted('8.0.0', ...newer)), 'custom reset-step tool-output-denied')
  assert.equal(fitted(undefined, ...newer).length, 3, 'without a release, what the agent says passes')
  const abort: Chunk = { type: 'abort', reason: 'stopped' }
  assert.deepEqual(fitted('6.0.14', abort), [{ type: 'abort' }])
  assert.deepEqual(fitted('6.0.15', abort), [abort])
  assert.deepEqual(fitted('5.0.217', abort), [abort], 'it ignores what it does not know')
  const failed: Chunk = { type: 'tool-output-error', toolCallId: '1', errorText: 'x', providerMetadata: {} }
  assert.deepEqual(fitted('6.0.119', failed), [
    { type: 'tool-output-error', toolCallId: '1', errorText: 'x' },
  ])
  assert.deepEqual(fitted('6.0.120', failed), [failed])
  const wrong: Chunk = {
    type: 'tool-input-error',
    toolCallId: '1',
    toolName: 't',
    input: 1,
    errorText: 'x',
  }
  assert.deepEqual([fitted('5.0.6', wrong), fitted('5.0.7', wrong)], [[], [wrong]])
  const finish: Chunk = { type: 'finish', finishReason: 'interrupted' }
  assert.deepEqual(fitted('7.0.148', finish), [{ type: 'finish', finishReason: 'other' }])
  assert.deepEqual(fitted('7.0.149', finish), [finish])
  assert.equal(levelOf(undefined, ASSUMED).knowsReset, false)
  assert.equal(levelOf(parseLevel('7.0.70'), ASSUMED).knowsReset, true)
})

test('for a client that forgets open texts at the end of a step, the step ends after them', () => {
  const said: readonly Chunk[] = [
    { type: 'start-step' },
    { type: 'text-start', id: '1' },
    { type: 'reasoning-start', id: '1' },
    { type: 'finish-step' },
    { type: 'text-delta', id: '1', delta: 'a' },
    { type: 'text-end', id: '1' },
    { type: 'reasoning-end', id: '1' },
    { type: 'start-step' },
    { type: 'text-start', id: '2' },
    { type: 'finish-step' },
    { type: 'finish' },
  ]
  assert.equal(types(fitted('7.0.79', ...said)), types(said))
  assert.equal(
    types(fitted('7.0.78', ...said)),
    'start-step text-start reasoning-start text-delta text-end reasoning-end finish-step start-step text-start finish-step finish',
  )
})

test('the result of a dynamic call carries `dynamic`, without which release 5 does not find the call', () => {
  const call = { type: 'tool-input-start', toolCallId: '1', toolName: 't' } as const
  const failed = { type: 'tool-output-error', toolCallId: '1', errorText: 'x' } as const
  for (const release of ['5.0.277', '7.0.169', undefined]) {
    const dynamic = fitted(release, { ...call, dynamic: true }, failed)
    assert.deepEqual(dynamic[1], { ...failed, dynamic: true })
    assert.deepEqual(fitted(release, { ...call, dynamic: true }, call, failed)[2], failed)
    assert.deepEqual(fitted(release, call, failed)[1], failed)
  }
})
