// Bytes that followers hold together.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createByteBudget } from '../../src/lib/byte-budget.ts'
import { yieldToEventLoop } from '../../src/lib/clock.ts'
import { manualClock } from '../support/clock.ts'

const never = new AbortController().signal

function budgetOf(most: number) {
  const clock = manualClock()
  const cuts: string[] = []
  const budget = createByteBudget({ clock, most, holdMs: 1_000, onCut: () => cuts.push('counted') })
  /** A holder that goes when it is cut. */
  const open = (name: string) => {
    const share = budget.open(() => {
      cuts.push(name)
      share.keep(0)
    })
    return share
  }
  return { clock, cuts, budget, open }
}

test('who wants more than is left waits, the first first; what is given back goes to them', async () => {
  const { budget, open } = budgetOf(100)
  const [a, b, c] = [open('a'), open('b'), open('c')]
  await a.take(80, never)
  const order: string[] = []
  const waiting = [
    b.take(50, never).then(() => order.push('b')),
    c.take(10, never).then(() => order.push('c')),
  ]
  await yieldToEventLoop()
  assert.deepEqual([order, budget.bytes()], [[], 80], 'who wants little does not overtake')
  a.keep(40)
  await Promise.all(waiting)
  assert.deepEqual([order, budget.bytes()], [['b', 'c'], 100])
  for (const share of [a, b, c]) share.close()
  assert.equal(budget.bytes(), 0)
})

test('while somebody waits, the one that holds longest is cut when its time is over, and nobody else', async () => {
  const { clock, cuts, open } = budgetOf(100)
  const [slow, other, next, reading] = [open('slow'), open('other'), open('next'), open('reading')]
  const hold = async (share: typeof slow, bytes: number) => {
    await share.take(bytes, never)
    share.keep(bytes)
  }
  await reading.take(10, never) // and has nothing to tell yet: that is not its holder's affair
  await hold(slow, 60)
  await clock.advance(900)
  await hold(other, 30)
  await clock.advance(5_000)
  assert.deepEqual(cuts, [], 'nobody waits')
  other.keep(30)
  await hold(next, 50)
  assert.deepEqual(cuts, ['slow', 'counted'])
  const late = open('late').take(85, never)
  await clock.advance(999)
  assert.equal(cuts.length, 2)
  await clock.advance(1)
  await late
  assert.deepEqual(cuts, ['slow', 'counted', 'other', 'counted', 'next', 'counted'])
})

test('those who were quick go before the others, who get their turn all the same', async () => {
  const { open } = budgetOf(10)
  const first = open('first')
  await first.take(10, never)
  const order: string[] = []
  const waiting: Promise<void>[] = []
  const wait = (name: string, share: ReturnType<typeof open>) => {
    const taken = share.take(10, never).then(() => {
      order.push(name)
      share.done()
    })
    waiting.push(taken)
  }
  const quick = Array.from({ length: 12 }, () => open('quick'))
  first.done()
  for (const share of quick) {
    await share.take(1, never)
    share.done()
  }
  await first.take(10, never)
  for (let n = 0; n < 2; n += 1) wait('other', open('other'))
  for (const share of quick) wait('quick', share)
  first.done()
  await Promise.all(waiting)
  assert.equal(order.length, 14)
  assert.equal(order.indexOf('other') < 9 && order.filter((name) => name === 'quick').length === 12, true)
  assert.ok(order.slice(0, 9).filter((name) => name === 'quick').length >= 7, order.join(' '))
})

test('one that leaves the line leaves nothing behind; more than there is goes alone', async () => {
  const { budget, open } = budgetOf(100)
  const [a, b] = [open('a'), open('b')]
  await a.take(1, never)
  const leaving = new AbortController()
  const left = b.take(500, leaving.signal)
  await yieldToEventLoop()
  leaving.abort(new Error('gone'))
  await assert.rejects(left, { message: 'gone' })
  a.keep(0)
  await b.take(500, never)
  assert.equal(budget.bytes(), 500)
  const after = a.take(1, never)
  b.close()
  await after
  assert.equal(budget.bytes(), 1)
  a.close()
  assert.equal(budget.bytes(), 0)
})
