// When a conversation is long enough to be summarised.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOverBudget, mostSummaryTokens, nextTryFrom, tokensOf } from '../../src/conversation/budget.ts'

const budget = { tokenBudget: 1_000, triggerRatio: 0.7 }

test('a conversation is compacted when it reaches its part of the budget, or when the window leaves messages out', () => {
  assert.deepEqual([tokensOf(0), tokensOf(1), tokensOf(2_800)], [0, 1, 700])
  assert.equal(isOverBudget({ tokens: 699, budget, isCut: false }), false)
  assert.equal(isOverBudget({ tokens: 700, budget, isCut: false }), true)
  assert.equal(isOverBudget({ tokens: 1, budget, isCut: true }), true)
  assert.deepEqual([nextTryFrom(7), mostSummaryTokens(budget)], [27, 350])
})
