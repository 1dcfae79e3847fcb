// When a conversation is long enough to be summarised.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOverBudget, nextTryFrom, tokensOf } from '../../src/conversation/budget.ts'

const budget = { tokenBudget: 1_000, triggerRatio: 0.7 }

test('a conversation is compacted from its part of the budget on; after a failure, a tenth of the budget later', () => {
  assert.deepEqual([tokensOf(0), tokensOf(1), tokensOf(2_800)], [0, 1, 700])
  assert.equal(isOverBudget({ tokens: 699, budget }, 0), false)
  assert.equal(isOverBudget({ tokens: 700, budget }, 0), true)
  const from = nextTryFrom({ tokens: 700, budget })
  assert.equal(from, 800)
  assert.equal(isOverBudget({ tokens: 799, budget }, from), false)
  assert.equal(isOverBudget({ tokens: 800, budget }, from), true)
})
