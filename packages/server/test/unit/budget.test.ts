// When a conversation is long enough to be summarised.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  contextTokens,
  isOverBudget,
  mostSummaryTokens,
  nextTryFrom,
  tokensOf,
} from '../../src/conversation/budget.ts'

const budget = { tokenBudget: 1_000, triggerRatio: 0.7 }

test('a conversation is compacted when it reaches its part of the budget, or when the window leaves messages out', () => {
  assert.deepEqual([tokensOf(0), tokensOf(1), tokensOf(2_800)], [0, 1, 700])
  assert.equal(isOverBudget({ tokens: 699, budget, isCut: false }), false)
  assert.equal(isOverBudget({ tokens: 700, budget, isCut: false }), true)
  assert.equal(isOverBudget({ tokens: 1, budget, isCut: true }), true)
  assert.deepEqual([nextTryFrom(7), mostSummaryTokens(budget)], [27, 350])
})

test('the length of a conversation is what the agent reports, unless nearly all of that is its instructions', () => {
  assert.equal(contextTokens(budget, { all: 100, fresh: 100 }, undefined), 100)
  assert.equal(contextTokens(budget, { all: 100, fresh: 100 }, 900), 900)
  assert.equal(contextTokens(budget, { all: 300, fresh: 69 }, 900), 300)
})
