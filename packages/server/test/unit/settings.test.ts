// Settings of agents: what is stored, and the ranges of numbers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changedBy, checkSettings, settingsOf } from '../../src/agent/settings.ts'

test('a change keeps what it does not name, also what a later release has stored', () => {
  const stored = { window: { messages: 5, later: 1 }, keep: 30 } as Parameters<typeof changedBy>[0]
  assert.deepEqual(changedBy(stored, { window: { bytes: 2_000 } }), {
    window: { messages: 5, later: 1, bytes: 2_000 },
    keep: 30,
  })
  assert.deepEqual(changedBy({}, { compaction: { enabled: true } }), { compaction: { enabled: true } })
  assert.deepEqual(changedBy({}, {}), {})
  const { window, compaction } = settingsOf({ compaction: { enabled: true, url: undefined } })
  assert.deepEqual(window, { messages: 500, bytes: 2_097_152 })
  assert.deepEqual(compaction, { enabled: true, tokenBudget: 50_000, triggerRatio: 0.7, url: null })
})

test('a number out of its range is rejected, with its name and its range', () => {
  for (const [change, text] of [
    [{ window: { messages: 501 } }, 'a: window.messages must be a whole number from 1 to 500'],
    [
      { compaction: { tokenBudget: 1.5 } },
      'a: compaction.tokenBudget must be a whole number from 1000 to 10000000',
    ],
    [
      { compaction: { triggerRatio: Number.NaN } },
      'a: compaction.triggerRatio must be a number from 0.1 to 1',
    ],
  ] as const)
    assert.throws(() => checkSettings('a', change), { message: text })
})
