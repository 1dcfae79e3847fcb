// The memory limit that followers share.
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
  /** A holder that gives back its bytes when it is cut. */
  const open = (name: string) => {
    const share = budget.open(() => {
      cuts.push(name)
      share.keep(0)
    })
    return share
  }
  return { clock, cuts, budget, open }
}

test('a holder that asks for more than is left waits in order, and gets the bytes that others give back', async () => {
  const { budget, open } = budgetOf(100)
  const [a, b, c] = [open('a'), open('b'), open('c')]
  await a.take(80, never)
  const order: string[] = []
  const waiting = [
    b.take(50, never).then(() => order.push('b')),
    c.take(10, never).then(() => order.push('c')),
  ]
  await yieldToEventLoop()
  assert.deepEqual(order, [], 'a small request does not overtake a large one')
  assert.equal(budget.bytes(), 80)
  a.keep(40)
  await Promise.all(waiting)
  assert.deepEqual(order, ['b', 'c'])
  assert.equal(budget.bytes(), 100)
  for (const share of [a, b, c]) share.close()
  assert.equal(budget.bytes(), 0)
})

test('while somebody waits, only the holder that has kept its bytes longest is cut, and not before its time is over', async () => {
  const { clock, cuts, open } = budgetOf(100)
  const [slow, other, next, reading] = [open('slow'), open('other'), open('next'), open('reading')]
  const hold = async (share: typeof slow, bytes: number) => {
    await share.take(bytes, never)
    share.keep(bytes)
  }
  await reading.take(10, never) // its time has not begun: it has nothing to send yet
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

test('holders that were quick go before the others, but the others get their turn, too', async () => {
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
  assert.equal(order.filter((name) => name === 'quick').length, 12)
  assert.ok(order.indexOf('other') < 9, order.join(' '))
  assert.ok(order.slice(0, 9).filter((name) => name === 'quick').length >= 7, order.join(' '))
})

test('a holder that stops waiting blocks nobody, and a request above the whole limit is served alone', async () => {
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
