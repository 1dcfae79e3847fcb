// Chunks that come again from the first one, merged otherwise: what is new in them is found, and what differs is not taken for the same.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mergeDeltas, type Chunk } from '@fleetline/protocol'
import * as fc from 'fast-check'
import { anyStream } from '../../../protocol/test/support/streams.ts'
import { createSentChunks } from '../../src/gateway/chat/sent-chunks.ts'
import { collect } from '../support/collect.ts'

const delta = (text: string): Chunk => ({ type: 'text-delta', id: '1', delta: text })
const streams = fc
  .array(fc.oneof(anyStream, fc.array(fc.constantFrom('a', '\ud83d', '\udc4b').map(delta))), { maxLength: 4 })
  .map((parts) => parts.flat())

function sentOf(chunks: readonly Chunk[]) {
  const sent = createSentChunks()
  for (const chunk of chunks) sent.push([chunk])
  return sent
}

test('sent plus new chunks equal the whole stream, wherever it is cut', () => {
  fc.assert(
    fc.property(streams, fc.nat(), (stream, cut) => {
      const before = stream.slice(0, cut % (stream.length + 1))
      const more = sentOf(before).findNew(mergeDeltas(stream))
      assert.ok(more, JSON.stringify([before, stream]))
      assert.deepEqual(mergeDeltas([...before, ...more]), mergeDeltas(stream))
    }),
    { numRuns: 2_000 },
  )
})

test('chunks that begin otherwise, or end before, are not what was sent', () => {
  const sent = [{ type: 'start' } as const, delta('one '), delta('two')]
  assert.deepEqual(sentOf(sent).findNew([sent[0]!, delta('one two three')]), [delta(' three')])
  for (const other of [
    [sent[0]!, delta('one')],
    [sent[0]!, delta('one tvo three')],
    [sent[0]!, { ...delta('one two three'), id: '2' } as Chunk],
    [delta('one two three')],
    [{ type: 'start', messageMetadata: {} } as const, delta('one two three')],
    [],
  ])
    assert.equal(sentOf(sent).findNew(other), undefined, JSON.stringify(other))
})

test('no word of what was sent stays in memory', () => {
  const bytes = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = bytes()
  const many = Array.from({ length: 20 }, createSentChunks)
  for (let n = 0; n < 20_000; n += 1) {
    const word = delta(`word ${n} `)
    for (const sent of many) sent.push([word])
  }
  const kept = (bytes() - before) / many.length
  assert.ok(kept < 20_000, `${kept} bytes are kept of 200 KB`)
  assert.deepEqual(many[0]!.findNew([]), undefined)
})
