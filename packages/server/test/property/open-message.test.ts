// What a pod keeps of replies that are under way. These mistakes make the tests fail (all were tried): a piece is joined under
// another index; a reader inside a piece continues as if it had all of it; a reader whose position was dropped gets the rest;
// emptied or dropped pieces still count; nothing is emptied, joined or dropped.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isTransient, type Chunk } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { createOpenMessages, pieceOf, type OpenMessage, type Spot } from '../../src/session/open-message.ts'
import { collect } from '../support/collect.ts'

const heapBytes = () => {
  collect()
  return process.memoryUsage().heapUsed
}
const NONE: Spot = { attempt: 0, next: 0 }
const LARGE = { openTurnBytes: 8 * 1024 * 1024, openBytes: 256 * 1024 * 1024 }

const word = (text: string): Chunk => ({ type: 'text-delta', id: '1', delta: text })
const shown = (text: string): Chunk => ({ type: 'data-x', transient: true, data: text })

function say(message: OpenMessage, chunk: Chunk): void {
  assert.ok(message.add(pieceOf({ index: message.end(), count: 1 }, [chunk], JSON.stringify(chunk))))
}

/** A reader that pulls, and the text that it has so far. */
function reading(message: OpenMessage) {
  let [spot, text, transient]: [Spot, string, number] = [NONE, '', 0]
  const take = (): boolean => {
    const bytes = message.bytesAt(spot)
    if (bytes === undefined) return false
    const taken = message.take(spot, bytes)!
    if (taken.index === 0) text = ''
    else {
      assert.equal(taken.attempt, spot.attempt, 'a piece of another attempt')
      assert.equal(taken.index, spot.next, 'a hole')
    }
    spot = { attempt: taken.attempt, next: taken.index + taken.count }
    for (const chunk of taken.chunks)
      if (isTransient(chunk)) transient += 1
      else if (chunk.type === 'text-delta') text += chunk.delta
    return true
  }
  const all = () => {
    while (take());
  }
  return { take, all, spot: () => spot, text: () => text, transient: () => transient }
}

const steps = fc.array(
  fc.oneof(
    fc.record({ say: fc.constant(word), count: fc.integer({ min: 1, max: 700 }), size: fc.nat(300) }),
    fc.record({ say: fc.constant(shown), count: fc.integer({ min: 1, max: 400 }), size: fc.nat(3_000) }),
    fc.record({ reader: fc.nat(2) }),
  ),
  { minLength: 1, maxLength: 25 },
)

test('D4: at any speed a reader gets the text without a hole, or nothing more once pieces that it needs were dropped', () => {
  const holds = fc.property(steps, fc.constantFrom(65_536, 262_144, 8_388_608), (plan, openTurnBytes) => {
    const messages = createOpenMessages({ openTurnBytes, openBytes: 4 * openTurnBytes })
    const message = messages.open()
    message.begin(1)
    const readers = Array.from({ length: 3 }, () => reading(message))
    let [text, said] = ['', 0]
    for (const step of plan) {
      if ('reader' in step) readers[step.reader]!.take()
      else
        for (let n = 0; n < step.count; n += 1) {
          const its = `${said % 10}`.repeat(step.size)
          if (step.say === word) text += its
          say(message, step.say(its))
          said += 1
          assert.ok(messages.bytes() <= openTurnBytes, `${messages.bytes()} bytes`)
        }
    }
    for (const reader of [...readers, reading(message)]) {
      reader.all()
      const isAtEnd = reader.spot().next === said
      assert.ok(isAtEnd || openTurnBytes < 8_388_608, 'all is kept, but the reader is not at the end')
      if (isAtEnd) assert.equal(reader.text(), text)
    }
    message.close()
    assert.equal(messages.bytes(), 0)
  })
  fc.assert(holds, { numRuns: 60, seed: 6 })
})

test('a reply of 100,000 words costs little more than its text, and a late reader gets all of it', () => {
  const messages = createOpenMessages(LARGE)
  const message = messages.open()
  message.begin(1)
  const near = reading(message)
  for (let n = 0; n < 100_000; n += 1) {
    say(message, word('words '))
    if (n % 100 === 0) near.all()
  }
  assert.ok(messages.bytes() < 1_200_000, `${messages.bytes()} bytes`)
  const late = reading(message)
  for (const reader of [near, late]) {
    reader.all()
    assert.equal(reader.text().length, 600_000)
  }
})

test('only the newest transient chunks are kept, and no reader is held up by the others', () => {
  const messages = createOpenMessages(LARGE)
  const message = messages.open()
  message.begin(1)
  const [near, slow] = [reading(message), reading(message)]
  for (let n = 0; n < 60; n += 1) {
    say(message, shown('y'.repeat(100_000)))
    say(message, word('w'))
    near.all()
    if (n === 20) slow.take()
  }
  assert.ok(messages.bytes() < 512 * 1024, `${messages.bytes()} bytes`)
  const late = reading(message)
  for (const reader of [near, slow, late]) reader.all()
  assert.deepEqual(
    [near, slow, late].map((reader) => reader.text().length),
    [60, 60, 60],
  )
  assert.equal(near.transient(), 60)
  assert.ok(slow.transient() < 10, `${slow.transient()} transient chunks`)
  assert.ok(late.transient() <= 3, `${late.transient()} transient chunks`)
})

test('a value that is short as text and large in memory counts by its size in memory', () => {
  const messages = createOpenMessages({ openTurnBytes: 1024 * 1024, openBytes: 4 * 1024 * 1024 })
  const message = messages.open()
  message.begin(1)
  const before = heapBytes()
  for (let n = 0; n < 100; n += 1)
    say(message, { type: 'data-x', id: '1', data: Array.from({ length: 4_900 }, () => ({})) })
  const grownBytes = heapBytes() - before
  assert.ok(grownBytes < 4 * 1024 * 1024, `${grownBytes} bytes for a hundred values of 300 KB, 15 KB as text`)
})

test('all replies share the memory limit of a pod, and small ones lose nothing', () => {
  const openBytes = 4 * 1024 * 1024
  const messages = createOpenMessages({ openTurnBytes: 1024 * 1024, openBytes })
  const open = (attempt: number) => {
    const message = messages.open()
    message.begin(attempt)
    return message
  }
  const small = Array.from({ length: 40 }, () => open(1))
  for (const message of small) say(message, word('small'))
  const large = Array.from({ length: 40 }, () => open(1))
  for (let n = 0; n < 100; n += 1)
    for (const message of large) {
      say(message, word('x'.repeat(10_000)))
      assert.ok(messages.bytes() <= openBytes, `${messages.bytes()} bytes`)
    }
  for (const message of small) {
    const late = reading(message)
    late.all()
    assert.equal(late.text(), 'small')
  }
  assert.equal(large[0]!.bytesAt(NONE), undefined, 'a new reader waits for the stored message')
  for (const message of [...small, ...large]) message.close()
  assert.equal(messages.bytes(), 0)
})
